import type { Settings } from '../config/toml.ts';
import { deleteExpiredResponses, ResponseStore } from '../planes/v1/stored/response-store.ts';
import type { Store } from '../store/index.ts';
import { errorMessage } from '../util/error-message.ts';

const defaultRetentionDays = 30;
const sweepIntervalMs = 3_600_000;

interface OpenResponsesOptions {
  readonly settings: Settings;
  readonly store: Store;
  readonly onNotice: (message: string) => void;
}

export interface OpenedResponses {
  /** Undefined where the host stores no responses. */
  readonly store: ResponseStore | undefined;
  readonly close: () => void;
}

/**
 * Opens the stored responses. Responses of earlier starts are deleted when they are too old, also where this one stores
 * none.
 */
export async function openResponses({
  settings,
  store,
  onNotice,
}: OpenResponsesOptions): Promise<OpenedResponses> {
  const retentionDays = settings.response_retention ?? defaultRetentionDays;
  const sweep = async () => {
    try {
      await deleteExpiredResponses(store, retentionDays);
    } catch (error) {
      onNotice(`responses that are too old could not be deleted: ${errorMessage(error)}`);
    }
  };
  // What was deleted just before an earlier host was killed may still be in the file.
  if (settings.store_responses) await store.erase(() => Promise.resolve());
  await sweep();
  const timer = setInterval(() => void sweep(), sweepIntervalMs);
  timer.unref();
  return {
    store: settings.store_responses ? new ResponseStore({ store, retentionDays }) : undefined,
    close: () => clearInterval(timer),
  };
}
