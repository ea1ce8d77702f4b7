import { forgetKept, listKept } from '../../src/platform/kept-records.ts';
import { ChatError } from './chat-error.ts';
import { addressOf } from './create-chat.ts';
import { openStorage } from './storage.ts';
import type { KeptModel } from './types.ts';

/** What earlier loads left in the private file system, by address. */
export async function keptModels(): Promise<KeptModel[]> {
  const storage = await openStorage();
  return storage ? await listKept(storage.models) : [];
}

/**
 * Gives the space of a kept model back. Nothing happens when there is none of that address.
 * @throws ChatError when a page is downloading it
 */
export async function forgetModel(url: string | URL): Promise<void> {
  const storage = await openStorage();
  const address = addressOf(url);
  if (!storage || address === undefined) return;
  if (await forgetKept(address, storage.models, storage.locks)) return;
  throw new ChatError('failed', `${address}: a page is downloading it; close that page first`);
}
