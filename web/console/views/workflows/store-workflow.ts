import type { Ensemble, LintReport } from '../../agents/schemas.ts';
import { api, unwrap } from '../../../api/client.ts';
import { Fault } from '../../../api/fault.ts';

const textBody = {
  bodySerializer: (text: string | undefined) => text ?? '',
  headers: { 'content-type': 'text/plain' },
} as const;

/** Stores a workflow. @param name of the workflow to replace; absent: creates a new one */
export const storeWorkflow = async (source: string, name?: string): Promise<Ensemble> =>
  // The route can also answer text, which is not requested here.
  (name === undefined
    ? await unwrap(api.POST('/agent/v1/workflows', { body: source, ...textBody }))
    : await unwrap(
        api.PUT('/agent/v1/workflows/{name}', { params: { path: { name } }, body: source, ...textBody }),
      )) as Ensemble;

/** Lint report in the error of a refused save. */
export function lintReportOf(error: unknown): LintReport | undefined {
  if (!(error instanceof Fault)) return undefined;
  const body = error.body as Partial<LintReport> | undefined;
  return Array.isArray(body?.errors) && Array.isArray(body.warnings) ? (body as LintReport) : undefined;
}
