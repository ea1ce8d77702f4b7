import type { Ensemble, LintReport } from '../../agents/shapes.ts';
import { api, held } from '../../api/client.ts';
import { Fault } from '../../api/fault.ts';

const asText = {
  bodySerializer: (text: string | undefined) => text ?? '',
  headers: { 'content-type': 'text/plain' },
} as const;

/** @param name of the one in whose place it comes; without it, it is a new one */
export const store = async (source: string, name?: string): Promise<Ensemble> =>
  // It could be text, too, for who asks for that.
  (name === undefined
    ? await held(api.POST('/agent/v1/workflows', { body: source, ...asText }))
    : await held(
        api.PUT('/agent/v1/workflows/{name}', { params: { path: { name } }, body: source, ...asText }),
      )) as Ensemble;

/** Of a source that was refused. */
export function reportIn(error: unknown): LintReport | undefined {
  if (!(error instanceof Fault)) return undefined;
  const body = error.body as Partial<LintReport> | undefined;
  return Array.isArray(body?.errors) && Array.isArray(body.warnings) ? (body as LintReport) : undefined;
}
