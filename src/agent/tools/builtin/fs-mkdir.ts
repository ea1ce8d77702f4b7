import type { ChangeTool, Proposal } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import { absentHash } from '../paths/files.ts';
import { escapeLine, Refusal, withRefusalAsOutput } from '../refusal.ts';
import { changeSchema, pathSchema } from './schema.ts';
import { type FileChanges, kindAt, readIntent, type StagedFile } from './staged-file.ts';
import { viewOf } from './staged-view.ts';

export const fsMkdir = (confinement: Confinement, changes: FileChanges): ChangeTool => ({
  kind: 'change',
  name: 'fs_mkdir',
  description:
    'Makes a folder, and the folders above it that are missing. fs_write needs no folder made before.',
  source: 'builtin',
  inputSchema: changeSchema({ path: pathSchema }, ['path']),
  propose: (args, context) =>
    withRefusalAsOutput(async (): Promise<Proposal> => {
      const view = await viewOf(context);
      const allowed = await confinement.resolveAllowed(String(args['path']), { ...context, view }, 'write');
      const kind = await kindAt(confinement, allowed, context, view);
      if (kind === 'folder') throw new Refusal(`${allowed.shown} is a folder already.`);
      if (kind !== undefined) throw new Refusal(`${allowed.shown} exists already, and is no folder.`);
      const payload: StagedFile = {
        path: allowed.path,
        write: context.grants.write,
        base: absentHash,
        change: { make: 'folder' },
      };
      return {
        // The list of kinds is fixed; a folder is written like a file.
        kind: 'file_write',
        intent: readIntent(args),
        summary: `Make the folder ${escapeLine(allowed.path)}.`,
        path: allowed.path,
        baseHash: absentHash,
        risk: 'low',
        payload,
      };
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
});
