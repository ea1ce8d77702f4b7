import { fetchRaw } from '../../api/client.ts';
import { readJsonLines } from '../../api/lines.ts';
import type { components } from '../../api/schema.d.ts';
import type { RunEvent } from './schemas.ts';

/** Starts a run; the run continues after the response is dropped. @returns its id */
export async function startRun(
  workflow: string,
  request: components['schemas']['RunRequest'],
): Promise<string> {
  const response = await fetchRaw(`/agent/v1/workflows/${encodeURIComponent(workflow)}/runs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
  });
  for await (const event of readJsonLines<RunEvent>(response))
    if (event.type === 'run_start') return event.run_id;
  throw new Error('The response did not confirm that the run started. Check the list of runs.');
}
