import { basename } from 'node:path';

/** The programs of this package, and the commands that an installation has for them. */
const commands = {
  agent: 'lathe-agent',
  gateway: 'lathe-gateway',
  host: 'lathe',
  lab: 'lathe-lab',
  observe: 'lathe-observe',
} as const;
export type Program = keyof typeof commands;

/**
 * How to start a program, as this process was started: `node dist/lab.js` in a checkout, `lathe-lab` as an installed command,
 * `npx lathe-lab` as one of a project.
 * @param startedAs the path that Node was started with
 */
export function commandOf(program: Program, startedAs = process.argv[1] ?? ''): string {
  const installed: readonly string[] = Object.values(commands);
  // A command of npm is a link, or on Windows a script that starts the file in node_modules.
  const isLink = installed.includes(basename(startedAs));
  const isInProject = /[\\/]node_modules[\\/]/.test(startedAs);
  if (!isLink && !/[\\/]node_modules[\\/]lathe[\\/]dist[\\/]/.test(startedAs))
    return `node dist/${program}.js`;
  return isInProject ? `npx ${commands[program]}` : commands[program];
}
