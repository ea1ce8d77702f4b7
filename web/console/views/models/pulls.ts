/** Downloads that this page started. They go on while another view is open. */
import { useSyncExternalStore } from 'react';
import { asFault, Fault } from '../../../api/fault.ts';
import { fetchRaw } from '../../../api/client.ts';
import { readJsonLines } from '../../../api/lines.ts';

export interface Pull {
  readonly name: string;
  readonly state: 'running' | 'done' | 'failed' | 'stopped';
  /** What the host does, in its words. */
  readonly status: string;
  /** Bytes of all files so far; undefined before the first one. */
  readonly progress: { readonly doneBytes: number; readonly totalBytes: number } | undefined;
  readonly error: unknown;
}

interface ProgressLine {
  readonly status?: string;
  readonly digest?: string;
  readonly total?: number;
  readonly completed?: number;
  readonly error?: string;
}

let pulls: readonly Pull[] = [];
const controllers = new Map<string, AbortController>();
const listeners = new Set<() => void>();

export const usePulls = (): readonly Pull[] =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => pulls,
  );

/** Starts a download, or resumes it where it stopped. @param onDone called when the model is stored */
export async function startPull(name: string, onDone: () => void): Promise<void> {
  if (controllers.has(name)) return;
  const controller = new AbortController();
  controllers.set(name, controller);
  pulls = [...pulls.filter((pull) => pull.name !== name), start(name)];
  change(name, {});
  const files = new Map<string, { doneBytes: number; totalBytes: number }>();
  try {
    const response = await fetchRaw('/api/pull', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: name }),
      signal: controller.signal,
    });
    for await (const { status, digest, total, completed, error } of readJsonLines<ProgressLine>(response)) {
      if (error !== undefined) throw new Fault(error);
      if (digest !== undefined && total !== undefined)
        files.set(digest, { doneBytes: completed ?? 0, totalBytes: total });
      change(name, { status: status ?? '', progress: sum(files.values()) });
    }
    change(name, { state: 'done', status: 'stored' });
    onDone();
  } catch (error) {
    if (controller.signal.aborted) change(name, { state: 'stopped', status: 'stopped' });
    else change(name, { state: 'failed', status: 'failed', error: asFault(error) });
  } finally {
    controllers.delete(name);
  }
}

export const stopPull = (name: string): void => controllers.get(name)?.abort();

/** Removes a finished download from the list. */
export function forgetPull(name: string): void {
  pulls = pulls.filter((pull) => pull.name !== name);
  notify();
}

const start = (name: string): Pull => ({
  name,
  state: 'running',
  status: 'asking the hub',
  progress: undefined,
  error: undefined,
});

function change(name: string, members: Partial<Pull>): void {
  pulls = pulls.map((pull) => (pull.name === name ? { ...pull, ...members } : pull));
  notify();
}

const notify = (): void => {
  for (const listener of listeners) listener();
};

function sum(files: Iterable<{ doneBytes: number; totalBytes: number }>): Pull['progress'] {
  let [doneBytes, totalBytes] = [0, 0];
  for (const file of files) {
    doneBytes += file.doneBytes;
    totalBytes += file.totalBytes;
  }
  return totalBytes === 0 ? undefined : { doneBytes, totalBytes };
}
