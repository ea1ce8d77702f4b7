import type { Settings } from '../config/toml.ts';
import { deleteExpiredResponses, ResponseStore } from '../planes/v1/stored/response-store.ts';
import { BackgroundResponses } from '../planes/v1/stored/background.ts';
import { QueuedResponses } from '../planes/v1/stored/queued-responses.ts';
import type { Store } from '../store/index.ts';
import type { Tracer } from '../tracing/index.ts';
import { errorMessage } from '../util/error-message.ts';

const defaultRetentionDays = 30;
const sweepIntervalMs = 3_600_000;

interface OpenResponsesOptions {
  readonly settings: Settings;
  readonly store: Store;
  readonly tracer: Tracer;
  /** Aborted when the host stops. */
  readonly stopSignal: AbortSignal;
  readonly onNotice: (message: string) => void;
  readonly onFault: (where: string, error: unknown) => void;
}

export interface OpenedResponses {
  /** Undefined where the host stores no responses. */
  readonly store: ResponseStore | undefined;
  readonly background: BackgroundResponses | undefined;
  readonly close: () => void;
}

/**
 * Opens the stored responses. Responses of earlier starts are deleted when they are too old, also where this one stores
 * none.
 */
export async function openResponses({
  settings,
  store,
  tracer,
  stopSignal,
  onNotice,
  onFault,
}: OpenResponsesOptions): Promise<OpenedResponses> {
  const retentionDays = settings.response_retention ?? defaultRetentionDays;
  const sweep = async () => {
    try {
      await deleteExpiredResponses(store, retentionDays);
    } catch (error) {
      onNotice(`responses that are too old could not be deleted: ${errorMessage(error)}`);
    }
  };
  await sweep();
  const timer = setInterval(() => void sweep(), sweepIntervalMs);
  timer.unref();
  const close = () => clearInterval(timer);
  if (!settings.store_responses) return { store: undefined, background: undefined, close };
  // What was deleted just before an earlier host was killed may still be in the file.
  await store.erase(() => Promise.resolve());
  const responses = new ResponseStore({ store, retentionDays });
  const queued = new QueuedResponses(store);
  await queued.failInterrupted();
  const background = new BackgroundResponses({ responses, queued, tracer, stopSignal, onFault });
  return { store: responses, background, close };
}
