import type { ConfigEnvelope, Finding, ValidationReport } from '../types.ts';
import { type ValidationContext, checkEvidence, checkSafety, checkSignature } from './checks.ts';
import { readConfigFile, readConfigValue } from './read.ts';

export interface Validation {
  readonly report: ValidationReport;
  /** The validated envelope, when the report is ok. */
  readonly envelope?: ConfigEnvelope;
}

type StageResult = ValidationReport['stages'][number];

/**
 * Validates a config without running anything: signature, then safety, then the parity evidence. Stages after a failed
 * one are skipped.
 * @param request path of a file, or the config itself
 * @param folder base folder of relative paths
 */
export async function validateConfig(
  request: { readonly path?: string | undefined; readonly envelope?: unknown },
  folder: string,
  context: ValidationContext,
): Promise<Validation> {
  const { findings, config } =
    request.path === undefined
      ? readConfigValue(request.envelope)
      : await readConfigFile(request.path, folder);
  const checks: readonly (readonly [
    StageResult['stage'],
    () => Promise<readonly Finding[]> | readonly Finding[],
  ])[] = [
    [
      'signature',
      () => (config ? [...findings, ...checkSignature(config.raw, config.envelope, context)] : findings),
    ],
    ['safety', () => (config ? checkSafety(config.envelope, context) : [])],
    ['parity', () => (config ? checkEvidence(config.envelope, context) : [])],
  ];
  const stages: StageResult[] = [];
  for (const [stage, check] of checks) {
    if (stages.some(({ ok }) => !ok)) {
      stages.push({ stage, ok: false, skipped: true, findings: [] });
      continue;
    }
    const stageFindings = await check();
    stages.push({
      stage,
      ok: !stageFindings.some(({ severity }) => severity === 'error'),
      findings: stageFindings,
    });
  }
  const ok = stages.every((stage) => stage.ok);
  return { report: { ok, stages }, ...(ok && config ? { envelope: config.raw as ConfigEnvelope } : {}) };
}
