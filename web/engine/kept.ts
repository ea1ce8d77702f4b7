import { deleteCachedModel, listCachedModels } from '../../src/platform/model-cache-records.ts';
import { ChatError } from './chat-error.ts';
import { absoluteUrl } from './create-chat.ts';
import { openStorage } from './storage.ts';
import type { KeptModel } from './types.ts';

/** Lists the models stored in the private file system. */
export async function keptModels(): Promise<KeptModel[]> {
  const storage = await openStorage();
  return storage ? await listCachedModels(storage.models) : [];
}

/**
 * Deletes a stored model. Does nothing when no model of that URL is stored.
 * @throws ChatError when a page is downloading it
 */
export async function forgetModel(url: string | URL): Promise<void> {
  const storage = await openStorage();
  const address = absoluteUrl(url);
  if (!storage || address === undefined) return;
  if (await deleteCachedModel(address, storage.models, storage.locks)) return;
  throw new ChatError('failed', `${address}: a page is downloading it; close that page first`);
}
