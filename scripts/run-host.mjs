import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runInForeground } from '../src/platform/foreground.mjs';

/**
 * npm runs scripts in the package folder, but paths on the command line are relative to the folder where npm was
 * called.
 */
const callerFolder = ({ npm_lifecycle_event: script, INIT_CWD: folder }) =>
  script && folder && statSync(folder, { throwIfNoEntry: false })?.isDirectory() ? folder : process.cwd();

/** @param entry entry file of the host, relative to the package root */
export const runHost = (entry, args) =>
  runInForeground(
    process.execPath,
    [fileURLToPath(new URL(`../${entry}`, import.meta.url)), '--gpu', ...args],
    {
      ownSession: true,
      cwd: callerFolder(process.env),
    },
  );
