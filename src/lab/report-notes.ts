/** What a gate's report means for the resident model. */
import type { Finding, KernelRegistration, KernelRegistrationReport } from './types.ts';

export const capturedUnavailable: Finding = {
  code: 'captured_unavailable',
  severity: 'info',
  message:
    'the model was busy, so no activations of it were among the inputs: register again when it is idle, or run parity on the live graph',
};

/** A kernel for other weights than the model's is right for all we know, and of no use here. */
export function foreignFormats({ dtypes }: KernelRegistration, formats: readonly string[]): Finding[] {
  if (!dtypes || formats.length === 0 || formats.some((one) => dtypes.includes(one))) return [];
  const message = `it was checked for weights of type ${dtypes.join(', ')}, and the resident model's are ${formats.join(', ')}: it cannot be bound here`;
  return [{ code: 'foreign_dtypes', severity: 'warning', message }];
}

/** The report with findings about the resident model, in its parity stage. */
export function withNotes(
  report: KernelRegistrationReport,
  notes: readonly Finding[],
): KernelRegistrationReport {
  const stages = report.stages.map((one) =>
    one.stage === 'parity' ? { ...one, findings: [...one.findings, ...notes] } : one,
  );
  return { ...report, stages };
}

/** What a sweep of the tunables found best for a shape; nothing when there was none. */
export function bestFor(
  { tuning }: KernelRegistrationReport,
  lab: { readonly dims: Readonly<Record<string, number>>; readonly format?: string } | undefined,
): Readonly<Record<string, number>> {
  if (!tuning || !lab) return {};
  const marks = [
    ...Object.entries(lab.dims).map(([name, value]) => `${name}=${value}`),
    ...(lab.format === undefined ? [] : [lab.format]),
  ];
  const same = tuning.find(({ shape }) => marks.every((mark) => shape.split(' ').includes(mark)));
  return (same ?? tuning[0])?.best ?? {};
}
