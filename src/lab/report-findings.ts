/** Additions to a registration report that concern the resident model. */
import type { Finding, KernelRegistration, KernelRegistrationReport } from './types.ts';

/** About the time of the built-in kernel beside the tuned ones, where the live graph runs it as part of another dispatch. */
export const fusedBuiltinFinding = (target: string, dispatch: string): Finding => ({
  code: 'builtin_is_fused',
  severity: 'info',
  message:
    `tuning: builtin_ms is the time of the op alone, but the live graph computes ${target} as part of ${dispatch}: a kernel bound to it ` +
    'must also make up for the fusion that is lost. The bench compares with the fused graph; a span keeps it',
});

export const captureUnavailableFinding: Finding = {
  code: 'captured_unavailable',
  severity: 'info',
  message:
    'the model was busy, so the inputs contain no captured activations: register again when it is idle, or run parity on the live graph',
};

/** A kernel for weight formats that the resident model does not have can pass the gate, but cannot be bound. */
export function findUnsupportedFormats(
  { dtypes }: KernelRegistration,
  formats: readonly string[],
): Finding[] {
  if (!dtypes || formats.length === 0 || formats.some((one) => dtypes.includes(one))) return [];
  const message = `the kernel was checked for weights in ${dtypes.join(', ')}, but the resident model has ${formats.join(', ')}: it cannot be bound here`;
  return [{ code: 'foreign_dtypes', severity: 'warning', message }];
}

/** Adds findings to the parity stage of a report. */
export function addParityFindings(
  report: KernelRegistrationReport,
  added: readonly Finding[],
): KernelRegistrationReport {
  const stages = report.stages.map((one) =>
    one.stage === 'parity' ? { ...one, findings: [...one.findings, ...added] } : one,
  );
  return { ...report, stages };
}

/** The overrides that the tuning sweep kept for a shape; empty without a sweep. */
export function tunedOverridesFor(
  { tuning }: { readonly tuning?: KernelRegistrationReport['tuning'] | undefined },
  dispatchShape: { readonly dims: Readonly<Record<string, number>>; readonly format?: string } | undefined,
): Readonly<Record<string, number>> {
  if (!tuning || !dispatchShape) return {};
  const shapeTerms = [
    ...Object.entries(dispatchShape.dims).map(([name, value]) => `${name}=${value}`),
    ...(dispatchShape.format === undefined ? [] : [dispatchShape.format]),
  ];
  const sameShape = tuning.find(({ shape }) => shapeTerms.every((term) => shape.split(' ').includes(term)));
  return (sameShape ?? tuning[0])?.best ?? {};
}
