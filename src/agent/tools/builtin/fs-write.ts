import type { ChangeTool } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import { withRefusalAsOutput } from '../refusal.ts';
import { changeSchema, pathSchema, textSchema } from './schema.ts';
import { viewOf } from './staged-view.ts';
import { type FileChanges, maxTextBytes, proposeText, type StagedFile, readTextFile } from './staged-file.ts';

interface Args {
  readonly intent: string;
  readonly path: string;
  readonly content: string;
}

export const fsWrite = (confinement: Confinement, changes: FileChanges): ChangeTool => ({
  kind: 'change',
  name: 'fs_write',
  description:
    'Writes a whole text file: a new one (folders that are missing are made), or in the place of the old one.',
  source: 'builtin',
  inputSchema: changeSchema(
    { path: pathSchema, content: textSchema('All that the file is to hold.', maxTextBytes) },
    ['path', 'content'],
  ),
  propose: (args, context) =>
    withRefusalAsOutput(async () => {
      const { path: argument, content } = args as unknown as Args;
      const view = await viewOf(context);
      const allowed = await confinement.resolveAllowed(argument, { ...context, view }, 'write');
      const before = await readTextFile(confinement, allowed, context, view);
      return proposeText({ allowed, before, after: content }, args, context);
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
  text: changes.text,
});
