import type { WorkCounts } from '../../agent/sessions/served-sessions.ts';
import { modelLoadingError, type Resident } from '../resident.ts';
import type { ServedCounters } from '../served-counters.ts';
import type { HostHealth, HostTelemetry } from './schema.ts';

/** The served model. @throws HttpError 503 while it loads */
export function readHealth(resident: Resident): HostHealth {
  if (resident.state.kind === 'loading') throw modelLoadingError();
  const id = resident.engine?.model.id;
  return id === undefined ? { model: '', status: 'no_model' } : { model: id, status: 'ok' };
}

export interface TelemetrySources {
  readonly served: ServedCounters;
  readonly resident: Resident;
  /** Undefined on a host without the agent plane. */
  readonly countWork: (() => Promise<WorkCounts>) | undefined;
}

/** Lists the routes with a `completion`, except embeddings and rankings. */
const coverage =
  'Tokens of buffered (not streamed) answers of /v1/chat/completions, /v1/completions, /v1/responses, /v1/responses/compact, /v1/messages, /chat/completions, /responses, /completion, /completions, /infill, /api/chat and /api/generate. Streamed completions and agent turns are counted as served and contribute no tokens. Embeddings and rankings are not counted.';

/** Losses of the GPU since the loaded models were loaded. */
export const countDeviceLosses = ({ models }: Resident): number =>
  models.reduce((sum, { engine }) => sum + engine.stats().deviceLosses, 0);

/** Totals since startup. */
export async function readTelemetry({
  served,
  resident,
  countWork,
}: TelemetrySources): Promise<HostTelemetry> {
  const counts = await countWork?.();
  return {
    since: served.since.toISOString(),
    served: { completions: served.completions, tasks: 0, workflow_runs: 0, ...counts },
    tokens: { prompt: served.promptTokens, completion: served.completionTokens },
    measured_completions: served.measuredCompletions,
    coverage,
    device_losses: countDeviceLosses(resident),
  };
}
