import { sep } from 'node:path';
import { sql } from 'kysely';
import type { Store, StoreReader } from '../../store/index.ts';
import type { StagedFiles, ToolContext } from '../tool.ts';

export const noStagedFiles: StagedFiles = {
  payloadOf: () => Promise.resolve(undefined),
  listBelow: () => Promise.resolve([]),
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
      .where('state', '=', 'staged')
      .where('expires_at', '>', store.time())
      .where('kind', 'in', ['file_write', 'file_delete'])
      .where('endpoint_id', '=', store.endpointId)
      .where('task_id', 'is not distinct from', taskId ?? null)
      .where('run_id', 'is not distinct from', runId ?? null);
  return {
    async payloadOf(path) {
      const row = await store.read((db) =>
        ofOwner(db)
          .select('payload')
          .where('path', '=', path)
          .orderBy('n', 'desc')
          .limit(1)
          .executeTakeFirst(),
      );
      return row === undefined ? undefined : (JSON.parse(row.payload) as unknown);
    },
    async listBelow(folder) {
      const prefix = folder.endsWith(sep) ? folder : `${folder}${sep}`;
      // Databases count characters, not UTF-16 units.
      const characters = Array.from(prefix).length;
      const rows = await store.read((db) =>
        ofOwner(db)
          .select(['path', 'kind'])
          .where(sql`substr(path, 1, ${sql.lit(characters)})`, '=', prefix)
          .orderBy('n')
          .execute(),
      );
      // The last change of a path counts.
      const kinds = new Map(rows.flatMap(({ path, kind }) => (path === null ? [] : [[path, kind] as const])));
      return [...kinds].map(([path, kind]) => ({ path, isDeleted: kind === 'file_delete' }));
    },
  };
}
