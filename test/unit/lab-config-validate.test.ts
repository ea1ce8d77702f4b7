import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canonicalJson } from '../../src/signing/canonical-json.ts';
import type { ValidationContext } from '../../src/lab/configs/checks.ts';
import { buildEnvelope, type ConfigContents } from '../../src/lab/configs/envelope.ts';
import { describeMachine } from '../../src/lab/configs/machine.ts';
import { signEnvelope } from '../../src/lab/configs/signature.ts';
import { computeKeyId, rawPublicKey, type SigningKey } from '../../src/signing/ed25519.ts';
import { validateConfig } from '../../src/lab/configs/validate.ts';
import { kernelDigest } from '../../src/lab/digest.ts';
import type { ConfigEnvelope, KernelRegistration } from '../../src/lab/types.ts';
import { acceptedReport, scriptedFingerprint } from '../support/scripted-lab.ts';

const newKey = (): SigningKey => {
  const pair = generateKeyPairSync('ed25519');
  return { ...pair, keyId: computeKeyId(rawPublicKey(pair.publicKey)) };
};
const own = newKey();
const foreign = newKey();

const kernel: KernelRegistration = {
  name: 'fast',
  op: 'rms_norm',
  source: '// größer\n@compute @workgroup_size(64) fn main() {}',
  dispatch: { x: 'tokens' },
  overrides: { WG: 64 },
  requires: ['subgroups'],
};
const digest = kernelDigest(kernel);
const contents: ConfigContents = {
  name: 'mine',
  model: { digest: scriptedFingerprint.model, architecture: 'llama' },
  bindings: [{ kernel: 'fast', components: ['layers.0.norm'] }],
  kernels: [kernel],
  evidence: { fast: acceptedReport('fast', digest) },
  machine: describeMachine('0.1.0'),
  fingerprint: scriptedFingerprint,
  createdAt: new Date(0),
};
const envelope = buildEnvelope(contents, own);
const judge: ValidationContext = {
  ownKey: own,
  trustedKeys: [],
  modelDigest: scriptedFingerprint.model,
  knownOps: ['rms_norm', 'matvec'],
  features: ['subgroups'],
};

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-validate-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

const judged = async (given: unknown, change: Partial<ValidationContext> = {}) =>
  (await validateConfig({ envelope: given }, folder, { ...judge, ...change })).report;
/** Codes of the findings, by stage; a skipped stage is `skipped`. */
async function codes(given: unknown, change: Partial<ValidationContext> = {}) {
  const { ok, stages } = await judged(given, change);
  expect(ok).toBe(stages.every((stage) => stage.ok));
  expect(stages.map(({ stage }) => stage)).toEqual(['signature', 'safety', 'parity']);
  return stages.map((stage) =>
    stage.skipped ? 'skipped' : stage.findings.map(({ code }) => code).join(' '),
  );
}
/** The modified contents with a valid signature. */
const signed = (change: Partial<ConfigContents>, key = own) => buildEnvelope({ ...contents, ...change }, key);
/** The modified envelope, signed again. */
const resigned = (change: object) => {
  const { signature: _, ...rest } = envelope;
  return signEnvelope({ ...rest, ...change }, own);
};

describe('an envelope', () => {
  test('contains the bindings and a signature over its canonical JSON', async () => {
    expect(envelope).toMatchObject({
      contract: 1,
      name: 'mine',
      kernels: [{ ...kernel, digest }],
      created_at: '1970-01-01T00:00:00.000Z',
      signature: { alg: 'ed25519', key_id: own.keyId },
    });
    const text = canonicalJson(envelope);
    const { report, envelope: read } = await validateConfig({ envelope: JSON.parse(text) }, folder, judge);
    expect(report).toEqual({
      ok: true,
      stages: ['signature', 'safety', 'parity'].map((stage) => ({ stage, ok: true, findings: [] })),
    });
    expect(read).toEqual(envelope);
  });

  test('undefined members and non-finite numbers do not invalidate the signature', async () => {
    const report = acceptedReport('fast', digest);
    const worst = {
      output: 'y',
      index: 0,
      expected: Number.NEGATIVE_INFINITY,
      got: Number.NEGATIVE_INFINITY,
    };
    const parity = report.parity?.map((one) => ({ ...one, worst }));
    const odd = signed({
      kernels: [{ ...kernel, tunables: undefined }],
      evidence: { fast: { ...report, ...(parity && { parity }) } },
    });
    expect(await codes(JSON.parse(canonicalJson(odd)))).toEqual(['', '', '']);
  });
});

describe('the signature', () => {
  test('by another key is untrusted until its id is trusted', async () => {
    const config = signed({}, foreign);
    expect(await codes(config)).toEqual(['untrusted_key', 'skipped', 'skipped']);
    const { stages } = await judged(config);
    expect(stages[0]?.findings[0]?.message).toContain(`--trust-key ${foreign.keyId}`);
    expect(await codes(config, { trustedKeys: [newKey().keyId, foreign.keyId] })).toEqual(['', '', '']);
  });

  const change = (signature: object) => ({ ...envelope, signature: { ...envelope.signature, ...signature } });
  const foreignPart = signed({}, foreign).signature;
  test.each<[string, unknown, string]>([
    ['another algorithm', change({ alg: 'rsa' }), 'unsupported_algorithm'],
    ['another value', change({ value: foreignPart.value }), 'tampered'],
    ['an empty value', change({ value: '' }), 'tampered'],
    ['another spelling of the value', change({ value: `${envelope.signature.value}=` }), 'tampered'],
    ['the id of another key', change({ key_id: foreign.keyId }), 'tampered'],
    ['another public key', change({ public_key: foreignPart.public_key }), 'tampered'],
    ['no public key, but our own id', change({ public_key: undefined }), ''],
    ['a foreign id, no public key', change({ ...foreignPart, public_key: undefined }), 'missing_public_key'],
    ['a further member', change({ more: 1 }), 'not_an_envelope'],
    ['changed contents', { ...envelope, name: 'other' }, 'tampered'],
    ['an added member', { ...envelope, more: 1 }, 'tampered'],
    ['an added member deep down', { ...envelope, model: { ...envelope.model, more: 1 } }, 'tampered'],
    ['half a surrogate pair', { ...envelope, more: '\ud800' }, 'tampered'],
    ['another contract', { ...envelope, contract: 2 }, 'unknown_contract'],
    ['nothing', undefined, 'not_an_envelope'],
    ['a text', 'x', 'not_an_envelope'],
    ['a million values', { ...envelope, kernels: Array(1e6).fill(1) }, 'too_large'],
    ['a thousand levels', JSON.parse(`${'['.repeat(1000)}${']'.repeat(1000)}`), 'too_large'],
  ])('%s', async (_, config, code) => {
    const found = await codes(JSON.parse(JSON.stringify(config ?? null)));
    expect(found).toEqual(code === '' ? ['', '', ''] : [code, 'skipped', 'skipped']);
  });

  test('all missing members of an envelope are reported', async () => {
    const { stages } = await judged({ ...envelope, name: 7, kernels: [{}], signature: undefined });
    const messages = stages[0]?.findings.map(({ message }) => message) ?? [];
    for (const path of ['name: ', 'kernels.0.op: ', 'kernels.0.source: ', 'signature: ']) {
      expect(messages.some((message) => message.startsWith(path))).toBe(true);
    }
  });

  test('every changed, removed or added member is detected', async () => {
    type Path = readonly (string | number)[];
    const paths: Path[] = [];
    const walk = (value: unknown, path: Path) => {
      if (path.length > 0) paths.push(path);
      if (typeof value !== 'object' || value === null) return;
      for (const [name, member] of Object.entries(value)) walk(member, [...path, name]);
    };
    walk(envelope, []);
    const dropsKey = (path: Path, how: string) => how === 'drop' && path.join('.') === 'signature.public_key';
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...paths),
        fc.constantFrom('drop', 'change', 'add'),
        fc.jsonValue(),
        async (path, how, value) => {
          // The host knows its own key, so public_key may be absent.
          fc.pre(!dropsKey(path, how));
          const copy = structuredClone(envelope) as unknown as Record<string, unknown>;
          let parent = copy;
          for (const name of path.slice(0, -1)) parent = parent[name] as Record<string, unknown>;
          const last = path.at(-1) ?? '';
          if (how === 'drop') delete parent[last];
          else parent[how === 'add' ? `${last}_` : last] = value;
          fc.pre(canonicalJson(JSON.parse(JSON.stringify(copy))) !== canonicalJson(envelope));
          expect((await judged(JSON.parse(JSON.stringify(copy)))).ok).toBe(false);
        },
      ),
      { numRuns: 400 },
    );
  });
});

describe('safety', () => {
  test.each<[string, ConfigEnvelope, Partial<ValidationContext>, string]>([
    ['another model', envelope, { modelDigest: `sha256:${'00'.repeat(32)}` }, 'model_mismatch'],
    ['an op that is unknown here', envelope, { knownOps: ['matvec'] }, 'unknown_op'],
    ['an adapter without a feature', envelope, { features: [] }, 'feature_missing'],
    ['a name that leads elsewhere', signed({ name: '../x' }), {}, 'unsafe_name'],
    [
      'a kernel whose name leads elsewhere',
      signed({
        kernels: [{ ...kernel, name: '../k' }],
        bindings: [{ kernel: '../k', components: ['a'] }],
      }),
      {},
      'unsafe_name',
    ],
    [
      'a binding without its kernel',
      signed({ bindings: [{ kernel: 'x', components: ['a'] }] }),
      {},
      'unknown_kernel',
    ],
    ['a kernel given twice', signed({ kernels: [kernel, kernel] }), {}, 'duplicate_kernel'],
    [
      'content that is not what its digest says',
      resigned({ kernels: [{ ...kernel, digest: kernelDigest({ ...kernel, source: 'other' }) }] }),
      {},
      'digest_mismatch',
    ],
    [
      'a kernel that the static checks refuse',
      envelope,
      { staticFindings: () => [{ code: 'loop', severity: 'error', message: 'endless', line: 2 }] },
      'loop',
    ],
  ])('%s', async (_, config, change, code) => {
    expect(await codes(config, change)).toEqual(['', code, 'skipped']);
  });

  test('warnings of the static checks do not fail it, and name their kernel', async () => {
    const { ok, stages } = await judged(envelope, {
      staticFindings: async ({ source }) => [
        { code: 'odd', severity: 'warning', message: source.slice(0, 2) },
      ],
    });
    expect([ok, stages[1]?.findings]).toEqual([
      true,
      [{ code: 'odd', severity: 'warning', message: '"fast": //' }],
    ]);
  });

  test('all errors are reported at once', async () => {
    const found = await codes(signed({ name: '..' }), { modelDigest: 'sha256:', knownOps: [], features: [] });
    expect(found[1]).toBe('unsafe_name model_mismatch feature_missing unknown_op');
  });
});

describe('the evidence of parity', () => {
  const report = acceptedReport('fast', digest);
  const [one] = report.parity ?? [];
  if (!one || !report.tolerance) throw new Error('the scripted report has one case');
  const { parity: _cases, ...uncompared } = report;
  test.each<[string, ConfigContents['evidence'], string]>([
    ['none', {}, 'missing_evidence'],
    ['of another kernel only', { other: report }, 'missing_evidence'],
    ['about another digest', { fast: { ...report, digest: 'sha256:00' } }, 'evidence_mismatch'],
    ['about another name', { fast: { ...report, kernel: 'slow' } }, 'evidence_mismatch'],
    ['not accepted', { fast: { ...report, accepted: false } }, 'evidence_rejected'],
    ['with a failed case', { fast: { ...report, parity: [{ ...one, ok: false }] } }, 'evidence_rejected'],
    [
      'with a failed stage',
      { fast: { ...report, stages: [{ stage: 'safety', ok: false, findings: [] }] } },
      'evidence_rejected',
    ],
    ['unverified', { fast: { ...report, unverified: true } }, 'evidence_unverified'],
    ['without a case', { fast: { ...report, parity: [] } }, 'evidence_unverified'],
    ['without cases', { fast: uncompared }, 'evidence_unverified'],
  ])('%s', async (_, evidence, code) => {
    expect(await codes(signed({ evidence }))).toEqual(['', '', code]);
  });

  test('unverified is a warning if the host allows it', async () => {
    const config = signed({ evidence: { fast: { ...report, unverified: true } } });
    const { ok, stages } = await judged(config, { allowUnverified: true });
    expect([ok, stages[2]?.findings[0]?.severity]).toEqual([true, 'warning']);
  });

  test('a wider tolerance is a warning', async () => {
    const evidence = { fast: { ...report, tolerance: { ...report.tolerance!, scale: 10 } } };
    const { ok, stages } = await judged(signed({ evidence }));
    expect([ok, stages[2]?.findings.map(({ code }) => code)]).toEqual([true, ['loose_tolerance']]);
  });

  test('names of built-in object members are not evidence', async () => {
    const named = { ...kernel, name: 'constructor' };
    const bindings = [{ kernel: 'constructor', components: ['a'] }];
    expect(await codes(signed({ kernels: [named], bindings, evidence: {} }))).toEqual([
      '',
      '',
      'missing_evidence',
    ]);
  });
});

describe('a file', () => {
  const text = canonicalJson(envelope);
  const atPath = async (path: string) =>
    (await validateConfig({ path }, folder, judge)).report.stages[0]?.findings.map(({ code }) => code);
  const file = async (content: string | Uint8Array) => {
    await writeFile(join(folder, 'c.json'), content);
    return (await atPath('c.json')) ?? [];
  };

  test('can be given by an absolute path or relative to the config directory', async () => {
    expect(await file(text)).toEqual([]);
    expect(await atPath(join(folder, 'c.json'))).toEqual([]);
  });

  test.each<[string, string | Uint8Array, string]>([
    ['with a byte order mark', `\ufeff${text}`, 'unreadable'],
    ['without a name', text.replace(/"name":"[^"]*",/, ''), 'not_an_envelope'],
    ['with a line end', `${text}\n`, 'not_canonical'],
    ['indented', JSON.stringify(envelope, null, 2), 'not_canonical'],
    ['with members in another order', JSON.stringify(envelope), 'not_canonical'],
    ['with a member given twice', text.replace('{', '{"contract":2,'), 'not_canonical'],
    ['larger than 16 MiB', new Uint8Array(16 * 1024 * 1024 + 1), 'unreadable'],
  ])('%s', async (_, content, code) => {
    expect(await file(content)).toEqual([code]);
  });

  test('every path that is not a config gives the same finding, so that callers cannot probe for files', async () => {
    await promisify(execFile)('mkfifo', [join(folder, 'pipe')]);
    const others = {
      text: 'root:x:0:0',
      json: '{"a":1}',
      list: '[]',
      empty: '',
      bytes: Buffer.from([0x22, 0xff]),
    };
    for (const [name, content] of Object.entries(others)) await writeFile(join(folder, name), content);
    const paths = ['absent', 'text/x', '.', '/dev/zero', 'pipe', 'a\0b', '\ud800', 'x'.repeat(5000)];
    for (const path of [...paths, ...Object.keys(others)]) {
      const { report } = await validateConfig({ path }, folder, judge);
      const [signature, ...rest] = report.stages;
      expect(signature?.findings).toEqual([
        {
          code: 'unreadable',
          severity: 'error',
          message: `path: ${JSON.stringify(path.slice(0, 200))} is not a config that this host can read; expected a file that the lab saved`,
        },
      ]);
      expect(rest.map(({ skipped }) => skipped)).toEqual([true, true]);
    }
  });

  test('every changed byte is detected', async () => {
    const bytes = Buffer.from(text);
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), async (at, mask) => {
        const flipped = Buffer.from(bytes);
        flipped[at] = (flipped[at] ?? 0) ^ mask;
        expect(await file(flipped)).not.toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});
