import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { runBench } from '../../src/lab/bench/run-bench.ts';
import { buildEnvelope, type ConfigContents } from '../../src/lab/configs/envelope.ts';
import { describeMachine } from '../../src/lab/configs/machine.ts';
import { kernelDigest, programDigest } from '../../src/lab/digest.ts';
import type { BenchEvidence, BenchRound, KernelRegistration } from '../../src/lab/types.ts';
import { readWgslKernel } from '../../src/lab-tool/local-kernels.ts';
import { main } from '../../src/lab-tool/main.ts';
import { readKernelFlags } from '../../src/lab-tool/kernel-flags.ts';
import { verifyConfig, verifyLines } from '../../src/lab-tool/verify-config.ts';
import { canonicalJson } from '../../src/signing/canonical-json.ts';
import { computeKeyId, rawPublicKey } from '../../src/signing/ed25519.ts';
import { acceptedReport, scriptedFingerprint } from '../support/scripted-lab.ts';
import { fingerprint, machines, peaks, simulatedPort } from '../support/simulated-bench.ts';

const pair = generateKeyPairSync('ed25519');
const key = { ...pair, keyId: computeKeyId(rawPublicKey(pair.publicKey)) };
const kernel: KernelRegistration = {
  name: 'fast',
  op: 'rms_norm',
  source: '@compute @workgroup_size(64) fn main() {}',
  dispatch: { x: 'tokens' },
};
const digest = kernelDigest(kernel);

async function evidence(): Promise<BenchEvidence> {
  const rounds: BenchRound['samples'][] = [];
  const port = simulatedPort({ speedup: 1.1, machine: machines.waves });
  const result = await runBench(
    port,
    {},
    {
      seed: 3,
      signal: new AbortController().signal,
      peaks,
      fingerprint: { ...fingerprint, kernels: { fast: digest } },
      onProgress: (progress) => {
        if (progress.stage === 'round') rounds.push(progress.samples);
      },
    },
  );
  return { result: { id: 'bench-1', ...result }, rounds, at: '2026-11-28T00:00:00.000Z' };
}
const bench = await evidence();
const contents: ConfigContents = {
  name: 'mine',
  model: { digest: scriptedFingerprint.model, architecture: 'llama' },
  bindings: [{ kernel: 'fast', components: ['layers.0.norm', 'layers.1.norm'] }],
  kernels: [kernel],
  evidence: { fast: acceptedReport('fast', digest) },
  bench,
  machine: describeMachine('0.1.0'),
  fingerprint: scriptedFingerprint,
  createdAt: new Date(0),
};
const verify = async (change: Partial<ConfigContents> = {}, text?: string) => {
  const config = buildEnvelope({ ...contents, ...change }, key);
  return await verifyConfig(config, text ?? canonicalJson(config));
};

describe('a config, verified without a host', () => {
  it('has a valid signature and figures that follow from its raw times', async () => {
    const verified = await verify();
    expect(verified).toMatchObject({ ok: true, findings: [], signed_by: key.keyId });
    const look = { paint: (_style: string, text: string) => text, width: 100 };
    const text = verifyLines(verified, 'mine.json', look).join('\n');
    expect(text).toContain('✓ mine.json  signature, digests, reports and figures agree');
    expect(text).toMatch(
      /bench +decode \+\d+\.\d% \(\+\d+\.\d% to \+\d+\.\d%\) faster, \d+ rounds, 2026-11-28/,
    );
    expect(text).toMatch(/machine .*lathe 0\.1\.0/);
  });

  it('says what was changed after it was signed, and what was only reformatted', async () => {
    const config = buildEnvelope(contents, key);
    const changed = { ...config, bench: { ...bench, at: 'later' } };
    expect(await verifyConfig(changed, canonicalJson(changed))).toMatchObject({
      ok: false,
      findings: [{ code: 'tampered' }],
    });
    expect(await verifyConfig(config, JSON.stringify(config, undefined, 1))).toMatchObject({
      ok: true,
      findings: [{ code: 'not_canonical', severity: 'warning' }],
    });
    expect(await verifyConfig({ contract: 1 }, '{}')).toMatchObject({ ok: false, config: null });
  });

  it('finds a bench that its signer made up', async () => {
    const codes = async (change: Partial<ConfigContents>) =>
      (await verify(change)).findings.map(({ code, message }) => `${code}: ${message}`).join();
    const { result, rounds } = bench;
    const better = result.decode.map((row) => ({ ...row, ratio: 2 * row.ratio }));
    expect(await codes({ bench: { ...bench, result: { ...result, decode: better } } })).toMatch(
      /bench_mismatch: decode at 32: the bench states a ratio of 2\.\d+, its times give 1\.\d+/,
    );
    expect(await codes({ bench: { ...bench, rounds: rounds.slice(1) } })).toContain(
      'rounds and has the times of',
    );
    const other = { ...result.fingerprint, kernels: { fast: 'sha256:other' } };
    expect(await codes({ bench: { ...bench, result: { ...result, fingerprint: other } } })).toContain(
      'which the config has not',
    );
    // A tuned kernel is measured with what its sweep chose.
    const tunedKernel = { ...kernel, tunables: { WG: [32, 64] } };
    const chosen = (value: number) => ({
      ...result.fingerprint,
      kernels: { [`fast WG=${value}`]: kernelDigest({ ...kernel, overrides: { WG: value } }) },
    });
    const measured = (value: number) => ({
      kernels: [tunedKernel],
      bench: { ...bench, result: { ...result, fingerprint: chosen(value) } },
    });
    expect(await codes(measured(32))).toBe('');
    expect(await codes(measured(16))).toContain('which the config has not');
    const rejected = { fast: { ...acceptedReport('fast', digest), accepted: false } };
    expect(await codes({ evidence: rejected })).toContain('evidence_rejected');
  });
});

describe('a published folder', () => {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-published-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const at = (...path: string[]) => join(folder, ...path);
  const run = async (...args: string[]) => {
    const output = { stdout: '', stderr: '' };
    const into = (name: keyof typeof output) =>
      new Writable({
        write(chunk: Buffer, _, done) {
          output[name] += chunk.toString();
          done();
        },
      });
    const code = await main({
      args,
      env: {},
      packageRoot: '.',
      stdout: into('stdout'),
      stderr: into('stderr'),
      signals: { on: () => undefined },
      stdoutClosed: new AbortController().signal,
      atExit: () => undefined,
      exit: () => undefined,
    });
    return { code, ...output };
  };
  const tuned: KernelRegistration = {
    ...kernel,
    name: 'tuned.v2',
    source: '//! op: add\n// doubles\n@compute @workgroup_size(64) fn main() {}\n',
    dispatch: { x: 'ceil(rows / 4)', y: 'tokens' },
    overrides: { WG: 32 },
    tunables: { WG: [32, 64] },
    requires: ['subgroups'],
    dtypes: ['q8_0', 'q4_k'],
  };
  const kernels = [kernel, tuned];
  const config = buildEnvelope(
    {
      ...contents,
      kernels,
      bindings: kernels.map(({ name }, n) => ({ kernel: name, components: [`layers.${n}.norm`] })),
      evidence: Object.fromEntries(
        kernels.map((one) => [one.name, acceptedReport(one.name, kernelDigest(one))]),
      ),
      bench: { ...bench, result: { ...bench.result, warnings: ['| a <b> warning'] } },
    },
    key,
  );
  writeFileSync(at('mine.json'), canonicalJson(config));

  it('has kernels that can be registered again, reports, figures, and a page', async () => {
    const out = at('mine');
    expect(await run('publish', at('mine.json'), '--out', out)).toMatchObject({
      code: 0,
      stdout: `wrote ${out}: config.json, kernels/fast.wgsl, kernels/tuned.v2.wgsl, report.json, manifest.json, README.md\n`,
    });
    for (const one of kernels) {
      const { kernels: read } = await readWgslKernel(
        join(out, 'kernels', `${one.name}.wgsl`),
        readKernelFlags({}),
      );
      const [{ registration, faults } = { faults: [] }] = read;
      expect(faults).toEqual([]);
      expect({ ...registration, source: '' }).toEqual({ ...one, source: '' });
      expect(programDigest(registration as KernelRegistration)).toBe(programDigest(one));
    }
    const page = readFileSync(join(out, 'README.md'), 'utf8');
    expect(page).toMatch(/decode at 32 \| [\d.]+ \| [\d.]+ \| 1\.\d+ \| .* \| faster \|/);
    expect(page).toContain('| fast | 1 case | 1.0e-9 of 1.0e-7 | standard, scale 1 | none |');
    expect(page).toContain(String.raw`\| a \<b\> warning`);
    expect(await run('verify', out)).toMatchObject({ code: 0 });
    expect(await run('publish', at('mine.json'), '--out', out)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('already exists'),
    });
  });

  it('is verified file by file', async () => {
    const out = at('changed');
    await run('publish', at('mine.json'), '--out', out);
    writeFileSync(join(out, 'README.md'), 'mine');
    expect(await run('verify', out)).toMatchObject({ code: 0 });
    const file = join(out, 'kernels/fast.wgsl');
    writeFileSync(file, readFileSync(file, 'utf8').replace('64', '32'));
    rmSync(join(out, 'report.json'));
    const { code, stdout } = await run('verify', out);
    expect(code).toBe(1);
    expect(stdout).toContain('error[changed_file] kernels/fast.wgsl differs from the signed config');
    expect(stdout).toContain('error[missing_file] report.json is missing');
  });

  it('is not written for a config that is not valid', async () => {
    const unsafe = buildEnvelope({ ...contents, kernels: [{ ...kernel, name: '../../fast' }] }, key);
    writeFileSync(at('unsafe.json'), canonicalJson(unsafe));
    const { code, stdout } = await run('publish', at('unsafe.json'), '--out', at('unsafe'));
    expect(code).toBe(1);
    expect(stdout).toContain('unsafe_name');
    expect(await run('verify', at('unsafe'))).toMatchObject({ code: 2 });
  });
});
