import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runInForeground } from '../src/platform/foreground.mjs';

/** npm runs scripts in the folder of the package; paths on the command line are meant from where npm was called. */
const callerFolder = ({ npm_lifecycle_event: script, INIT_CWD: folder }) =>
  script && folder && statSync(folder, { throwIfNoEntry: false })?.isDirectory() ? folder : process.cwd();

/** @param entry of the host, from the root of the package */
export const runHost = (entry, args) =>
  runInForeground(
    process.execPath,
    [fileURLToPath(new URL(`../${entry}`, import.meta.url)), '--gpu', ...args],
    {
      ownSession: true,
      cwd: callerFolder(process.env),
    },
  );
