import type { ChangeTool } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import { answering } from '../refusal.ts';
import { aChange, aPath, aText } from './schema.ts';
import { type FileChanges, mostBytes, proposedText, type StagedFile, textAt } from './staged-file.ts';

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
  inputSchema: aChange({ path: aPath, content: aText('All that the file is to hold.', mostBytes) }, [
    'path',
    'content',
  ]),
  propose: (args, context) =>
    answering(async () => {
      const { path: argument, content } = args as unknown as Args;
      const allowed = await confinement.allowed(argument, context, 'write');
      const before = await textAt(confinement, allowed, context.signal);
      return proposedText({ allowed, before, after: content }, args, context);
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
});
