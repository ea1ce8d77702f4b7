import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { isWithin } from '../paths/resolve-path.ts';
import type { GrantRoot } from '../paths/grant-roots.ts';

/** Entries of /etc that programs need: library paths, user names and certificates. They contain no secrets. */
const etcEntries = [
  'alternatives',
  'ca-certificates',
  'ca-certificates.conf',
  'group',
  'hosts',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'localtime',
  'magic',
  'mime.types',
  'nsswitch.conf',
  'os-release',
  'passwd',
  'pki/tls/certs',
  'ssl/certs',
  'ssl/openssl.cnf',
  'terminfo',
];
/** Program folders besides /usr; links into /usr on most systems. */
const programFolders = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store', '/gnu/store'];

/** Folders that the sandbox provides itself; the host's are never mounted. */
const sandboxOwned = ['/proc', '/dev', '/sys', '/run'];

export interface Mounts {
  readonly roots: readonly GrantRoot[];
  /** Hidden even if a grant includes them. */
  readonly forbidden: readonly string[];
}

const isLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/** A folder or file of the host, and its path inside the sandbox. */
interface Mount {
  readonly of: string;
  readonly at: string;
  readonly write: boolean;
}

/** Bubblewrap's mount arguments; later mounts cover earlier ones. */
export function mountArguments({ roots, forbidden }: Mounts, scratchBytes: number): string[] {
  const size = ['--size', String(scratchBytes)];
  const hiddenPaths = forbidden.filter((path) => existsSync(path)).map((path) => realpathSync(path));
  const rootGrants = roots.filter(({ path }) => path === '/');
  const hasRootGrant = rootGrants.length > 0;
  const rootMount = { of: '/', at: '/', write: rootGrants.some(({ write }) => write) };
  const mounts = roots
    .filter(
      ({ path }) => path !== '/' && ![...sandboxOwned, ...hiddenPaths].some((one) => isWithin(one, path)),
    )
    .filter(({ path }) => existsSync(path))
    .sort((a, b) => a.path.length - b.path.length || Number(a.write) - Number(b.write))
    .flatMap((root) => toMounts(root, hasRootGrant));
  return [
    hasRootGrant ? [rootMount, ...pinParents(rootMount, hiddenPaths)].flatMap(bindArguments) : systemMounts(),
    // If the host runs as root, files in /proc belong to its user, so /proc is mounted read-only.
    ['--proc', '/proc', '--remount-ro', '/proc'],
    ['--dev', '/dev', ...size, '--tmpfs', '/dev/shm', '--remount-ro', '/dev', ...size, '--tmpfs', '/tmp'],
    hasRootGrant ? ['--tmpfs', '/run', '--tmpfs', '/sys'] : [],
    ...mounts.flatMap((view) => [view, ...pinParents(view, hiddenPaths)]).map(bindArguments),
    ...(hasRootGrant ? [rootMount, ...mounts] : mounts).flatMap((view) => hideArguments(view, hiddenPaths)),
    // The root itself is bubblewrap's tmpfs.
    hasRootGrant ? [] : ['--remount-ro', '/'],
  ].flat();
}

/** A path that is granted through a link is also mounted at the granted path. */
function toMounts({ path, granted, write }: GrantRoot, hasRootGrant: boolean): Mount[] {
  const real = { of: path, at: path, write };
  return granted === path || isTaken(granted, hasRootGrant) ? [real] : [real, { ...real, at: granted }];
}

/** Path inside the sandbox of a host path in a mount. */
const pathInSandbox = ({ of, at }: Mount, path: string): string => join(at, relative(of, path));

/**
 * Mounts each parent folder of a hidden path onto itself. Mount points cannot be renamed, so a command cannot move
 * hidden data to a path that the next command can see.
 */
function pinParents(view: Mount, hiddenPaths: readonly string[]): Mount[] {
  if (!view.write) return [];
  const parents = hiddenPaths
    .filter((path) => isWithin(view.of, path) && path !== view.of)
    .flatMap((path) => foldersBetween(view.of, path));
  return [...new Set(parents)]
    .sort((a, b) => a.length - b.length)
    .map((path) => ({ of: path, at: pathInSandbox(view, path), write: true }));
}

function foldersBetween(top: string, path: string): string[] {
  const parents = dirname(path);
  return parents === top ? [] : [...foldersBetween(top, parents), parents];
}

const bindArguments = ({ of, at, write }: Mount): string[] => [write ? '--bind' : '--ro-bind', of, at];

const systemMounts = (): string[] =>
  [
    ['--ro-bind', '/usr', '/usr'],
    ...programFolders.map((path) => {
      if (isLink(path)) return ['--symlink', readlinkSync(path), path];
      return existsSync(path) ? ['--ro-bind', path, path] : [];
    }),
    ...etcEntries.map((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
  ].flat();

/** Whether a path inside the sandbox is used for something else. */
const isTaken = (granted: string, hasRootGrant: boolean): boolean =>
  hasRootGrant ||
  ['/usr', '/etc', ...programFolders, ...sandboxOwned].some((path) => isWithin(path, granted));

/** Covers hidden paths with an empty read-only folder. */
const hideArguments = (view: Mount, hiddenPaths: readonly string[]): string[] =>
  hiddenPaths
    .filter((path) => isWithin(view.of, path))
    .map((path) => pathInSandbox(view, path))
    .flatMap((at) => ['--tmpfs', at, '--remount-ro', at]);
