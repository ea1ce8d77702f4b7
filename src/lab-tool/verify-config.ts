/** Checks a signed config without a host: what it says of itself must agree. */
import { contracts } from '../../kernels/contracts.ts';
import { median } from '../lab/bench/statistics.ts';
import { checkEvidence, checkSafety, checkSignature, type ValidationContext } from '../lab/configs/checks.ts';
import { readConfigValue } from '../lab/configs/read.ts';
import { kernelDigest } from '../lab/digest.ts';
import type { BenchEvidence, ConfigEnvelope, Finding } from '../lab/types.ts';
import { canonicalJson } from '../signing/canonical-json.ts';
import { printable } from '../terminal/printable.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { formatCount, pluralize } from './figures.ts';
import { decodeOf, verdictWithAmount } from './bench-text.ts';

export interface VerifiedConfig {
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  /** Who signed it; the signature is valid if there is no finding about it. */
  readonly signed_by: string | null;
  readonly config: ConfigEnvelope | null;
}

/** Ratios that are computed again may differ by rounding of the times. */
const maxRatioError = 0.002;

/** @param text the file, which the host writes as canonical JSON */
export async function verifyConfig(value: unknown, text: string): Promise<VerifiedConfig> {
  const { findings: shape, config } = readConfigValue(value);
  if (!config) return { ok: false, findings: shape, signed_by: null, config: null };
  const { raw, envelope } = config;
  const { key_id: keyId } = envelope.signature;
  const features = envelope.kernels.flatMap(({ requires = [] }) => requires);
  const context: ValidationContext = {
    // No key is this tool's own, and trust is for the reader to decide.
    ownKey: { keyId: '', publicKey: undefined as never },
    trustedKeys: [keyId],
    modelDigest: envelope.model.digest,
    knownOps: [...contracts.keys()],
    features,
  };
  const saved = raw as ConfigEnvelope;
  const findings = [
    ...(text.trimEnd() === canonicalJson(raw) ? [] : [reformatted]),
    ...checkSignature(raw, envelope, context),
    ...(await checkSafety(envelope, context)),
    ...checkEvidence(envelope, context),
    ...(saved.bench ? checkBench(saved.bench, saved) : []),
  ];
  return {
    ok: !findings.some(({ severity }) => severity === 'error'),
    findings,
    signed_by: keyId,
    config: saved,
  };
}

const reformatted: Finding = {
  code: 'not_canonical',
  severity: 'warning',
  message:
    'the file is not canonical JSON (RFC 8785): it was reformatted after saving; hosts do not bind it from a path',
};

/** The stated ratios against those of the raw times, and the measured kernels against those of the config. */
function checkBench({ result, rounds }: BenchEvidence, { kernels }: ConfigEnvelope): Finding[] {
  const error = (message: string): Finding => ({ code: 'bench_mismatch', severity: 'error', message });
  const findings: Finding[] = [];
  if (rounds.length !== result.rounds)
    findings.push(error(`the bench states ${result.rounds} rounds and has the times of ${rounds.length}`));
  const rows = [
    { what: 'prefill', kind: 'prefill', context: result.prefill.prompt_tokens, ratio: result.prefill.ratio },
    ...result.decode.map(({ context, ratio }) => ({
      what: `decode at ${context}`,
      kind: 'decode',
      context,
      ratio,
    })),
  ];
  for (const { what, kind, context, ratio } of rows) {
    const samples = rounds
      .flat()
      .filter((one) => one.kind === kind && (kind === 'prefill' || one.context === context));
    const logs = samples.flatMap((one) => [
      Math.log(one.baseline_ms / one.bound_ms),
      Math.log(one.control_ms / one.bound_ms),
    ]);
    if (logs.length === 0) {
      findings.push(error(`the bench has no times for ${what}`));
      continue;
    }
    const computed = Math.exp(median(logs));
    if (Math.abs(computed / ratio - 1) > maxRatioError)
      findings.push(
        error(`${what}: the bench states a ratio of ${ratio}, its times give ${computed.toFixed(4)}`),
      );
  }
  for (const [name, digest] of Object.entries(result.fingerprint.kernels))
    if (!digestsOf(name, kernels).has(digest))
      findings.push(error(`the bench measured ${name} with the digest ${digest}, which the config has not`));
  return findings;
}

/** @param name name of a kernel, followed by the overrides that its sweep chose: `mine WG=64` */
function digestsOf(name: string, kernels: ConfigEnvelope['kernels']): ReadonlySet<string> {
  const [kernelName, ...tuned] = name.split(' ');
  const chosen = Object.fromEntries(
    tuned.map((one) => [one.slice(0, one.indexOf('=')), Number(one.slice(one.indexOf('=') + 1))]),
  );
  return new Set(
    kernels
      .filter((kernel) => kernel.name === kernelName)
      .flatMap((kernel) => {
        const isAllowed = Object.entries(chosen).every(([key, value]) =>
          kernel.tunables?.[key]?.includes(value),
        );
        const overrides = { ...kernel.overrides, ...chosen };
        return [kernel.digest, ...(isAllowed ? [kernelDigest({ ...kernel, overrides })] : [])];
      }),
  );
}

export function verifyLines(
  { ok, findings, signed_by: key, config }: VerifiedConfig,
  file: string,
  look: OutputStyle,
): string[] {
  const { paint } = look;
  const mark = ok ? paint('good', '✓') : paint('bad', '✗');
  const head = `${mark} ${paint('strong', printable(file))}  ${ok ? 'signature, digests, reports and figures agree' : 'not valid'}`;
  const findingLines = findings.map(
    ({ severity, code, message }) =>
      `  ${paint(severity === 'error' ? 'bad' : 'warn', `${severity}[${code}]`)} ${printable(message)}`,
  );
  if (!config) return [head, ...findingLines];
  const { name, created_at: at, model, kernels, bindings, bench, machine, fingerprint } = config;
  const facts = [
    ['config', `${name}, ${at}`],
    ['signed by', `${key} (whether to trust this key is yours to decide)`],
    ['model', `${model.architecture} ${model.digest}`],
    ['kernels', kernels.map((one) => `${one.name} (${one.op})`).join(', ')],
    [
      'components',
      pluralize(
        bindings.reduce((sum, one) => sum + one.components.length, 0),
        'component',
      ),
    ],
    [
      'adapter',
      `${fingerprint.adapter}, ${fingerprint.backend}, ${fingerprint.driver}, Dawn ${fingerprint.dawn}`,
    ],
    ...(machine
      ? [
          [
            'machine',
            `${machine.cpu}, ${pluralize(machine.cores, 'core')}, ${formatCount(machine.memory_bytes)}B, ${machine.os}, ` +
              `load ${machine.load.toFixed(1)}, lathe ${machine.lathe}, Node ${machine.node}`,
          ],
        ]
      : []),
    [
      'bench',
      bench
        ? `${verdictWithAmount('decode', decodeOf(bench.result), bench.result.effect)}, ${pluralize(bench.result.rounds, 'round')}, ${bench.at}`
        : 'none of these bindings',
    ],
  ] as const;
  return [
    head,
    ...findingLines,
    ...facts.map(([what = '', text = '']) => `  ${what.padEnd(11)} ${printable(text)}`),
  ];
}
