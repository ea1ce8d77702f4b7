/** Why a registered kernel cannot be bound as it is, in one line. */
import type { KernelRegistrationReport } from './types.ts';

const maxLength = 300;

/**
 * The first error of a gate's report: check, code, message with its figures, and line of the source. Undefined for an accepted kernel.
 * `parity: wrong_result: expected 1.2, got 0.9 at y[3]: NMSE 0.02, limit 5.0e-4`
 */
export function rejectionReason({ accepted, stages }: KernelRegistrationReport): string | undefined {
  if (accepted) return undefined;
  const [first] = stages.flatMap(({ stage, findings }) =>
    findings.flatMap((finding) => (finding.severity === 'error' ? [{ stage, ...finding }] : [])),
  );
  if (!first) {
    const failed = stages.filter(({ ok }) => !ok).map(({ stage }) => stage);
    return failed.length === 0 ? 'rejected by the gate' : `rejected by ${failed.join(' and ')}`;
  }
  const { stage, code, message, line } = first;
  const place = line === undefined ? '' : ` (line ${line})`;
  const [firstLine = ''] = message.split('\n');
  const text = `${stage}: ${code}: ${firstLine}`;
  const limit = maxLength - place.length;
  return `${text.length > limit ? `${text.slice(0, limit - 1)}…` : text}${place}`;
}

/** @param quarantine reason of the quarantine, if the kernel is in it */
export function stateReason(
  { report, isStale }: { readonly report: KernelRegistrationReport; readonly isStale?: true },
  quarantine: string | undefined,
): string | undefined {
  if (quarantine !== undefined) return `quarantine: ${quarantine}: change it and register it again`;
  const rejected = rejectionReason(report);
  if (rejected !== undefined) return rejected;
  if (isStale) return 'checked on another adapter, driver, model or version: register it again';
  return report.unverified ? 'compiled, not compared: the parity mode was off' : undefined;
}
