import type { ModelRole } from '../../planes/model-store.ts';

/** Why the files of a model cannot be deleted or replaced, and what to do. */
export const inUseReasons: Readonly<Record<ModelRole, string>> = {
  main: 'is the resident model; with --swap load another model in its place, otherwise start the host with another --model',
  embedding: 'is the embedding model, which stays loaded; start the host without it as --embedding-model',
  further: 'is loaded beside the resident model; close it with keep_alive 0',
  draft: 'is the draft model of a loaded model; start the host without it as --draft',
};
