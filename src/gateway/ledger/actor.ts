import { AsyncLocalStorage } from 'node:async_hooks';

const storage = new AsyncLocalStorage<string>();

/** Runs work whose changes are logged under this name instead of that of the process. */
export const runAs = <T>(actor: string, work: () => T): T => storage.run(actor, work);

export const currentActor = (): string | undefined => storage.getStore();
