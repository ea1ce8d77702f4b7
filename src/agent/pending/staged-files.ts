import type { Store, StoreReader } from '../../store/index.ts';
import type { StagedFiles, ToolContext } from '../tool.ts';

export const noStagedFiles: StagedFiles = {
  payloadOf: () => Promise.resolve(undefined),
  list: () => Promise.resolve([]),
};

/** The staged file changes of one task or run. */
export function stagedFilesOf(
  store: Store,
  { taskId, runId }: Pick<ToolContext, 'taskId' | 'runId'>,
): StagedFiles {
  if (taskId === undefined && runId === undefined) return noStagedFiles;
  const ofOwner = (db: StoreReader) =>
    db
      .selectFrom('pending')
      .where('kind', 'in', ['file_write', 'file_delete'])
      .where('endpoint_id', '=', store.endpointId)
      .where('task_id', 'is not distinct from', taskId ?? null)
      .where('run_id', 'is not distinct from', runId ?? null);
  return {
    async list() {
      const rows = await store.read((db) =>
        ofOwner(db)
          .where('state', '=', 'staged')
          .where('expires_at', '>', store.time())
          .select(['n', 'id', 'tool', 'path', 'kind'])
          .orderBy('n')
          .execute(),
      );
      return rows.flatMap(({ n, id, tool, path, kind }) =>
        path === null ? [] : [{ n, id, tool, path, isDeleted: kind === 'file_delete' }],
      );
    },
    async payloadOf(n) {
      const row = await store.read((db) =>
        ofOwner(db).select('payload').where('n', '=', n).executeTakeFirst(),
      );
      return row === undefined ? undefined : (JSON.parse(row.payload) as unknown);
    },
  };
}

/** Reads each of them once, for questions about many changes at one time. */
export function readOnce(staged: StagedFiles): StagedFiles {
  let list: ReturnType<StagedFiles['list']> | undefined;
  const payloads = new Map<number, Promise<unknown>>();
  return {
    list: () => (list ??= staged.list()),
    payloadOf(n) {
      const payload = payloads.get(n) ?? staged.payloadOf(n);
      payloads.set(n, payload);
      return payload;
    },
  };
}
