import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { runBench } from '../../src/lab/bench/run-bench.ts';
import { buildEnvelope, type ConfigContents } from '../../src/lab/configs/envelope.ts';
import { describeMachine } from '../../src/lab/configs/machine.ts';
import { kernelDigest } from '../../src/lab/digest.ts';
import type { BenchEvidence, BenchRound, KernelRegistration } from '../../src/lab/types.ts';
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
    expect(text).toMatch(/bench +decode \+\d+\.\d% faster, \d+ rounds, 2026-11-28/);
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
    const rejected = { fast: { ...acceptedReport('fast', digest), accepted: false } };
    expect(await codes({ evidence: rejected })).toContain('evidence_rejected');
  });
});
