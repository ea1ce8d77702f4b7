import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { Recorder, type RecorderOptions } from '../../src/recorder/recorder.ts';
import { entryPath } from './host.ts';

export const recorderWorker = entryPath('recorder-worker');

/** Opens recorders in folders of the file's own; they are closed and removed after its tests. */
export function recorders() {
  const root = mkdtempSync(join(tmpdir(), 'lathe-recorder-'));
  const open: Recorder[] = [];
  afterAll(async () => {
    for (const recorder of open) await recorder.close();
    rmSync(root, { recursive: true });
  });
  return async (name: string, options: Partial<RecorderOptions> = {}) => {
    const faults: string[] = [];
    const folder = join(root, name);
    const recorder = await Recorder.open({
      folder,
      worker: recorderWorker,
      secrets: [],
      onFault: (message) => faults.push(message),
      onNotice: () => undefined,
      ...options,
    });
    open.push(recorder);
    return { recorder, faults, folder };
  };
}
