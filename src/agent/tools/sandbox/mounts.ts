import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { isWithin } from '../paths/resolve.ts';
import type { Root } from '../paths/roots.ts';

/** Entries of /etc that programs need: library paths, user names and certificates. They contain no secrets. */
const settings = [
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
const programs = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store', '/gnu/store'];

/** Folders that the sandbox provides itself; the host's are never mounted. */
const own = ['/proc', '/dev', '/sys', '/run'];

export interface Mounts {
  readonly roots: readonly Root[];
  /** Hidden even if a grant includes them. */
  readonly forbidden: readonly string[];
}

const isLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/** A folder or file of the host, and its path inside the sandbox. */
interface View {
  readonly of: string;
  readonly at: string;
  readonly write: boolean;
}

/** Bubblewrap's mount arguments; later mounts cover earlier ones. */
export function mountArguments({ roots, forbidden }: Mounts, scratchBytes: number): string[] {
  const size = ['--size', String(scratchBytes)];
  const closed = forbidden.filter((path) => existsSync(path)).map((path) => realpathSync(path));
  const everything = roots.filter(({ path }) => path === '/');
  const whole = everything.length > 0;
  const all = { of: '/', at: '/', write: everything.some(({ write }) => write) };
  const some = roots
    .filter(({ path }) => path !== '/' && ![...own, ...closed].some((one) => isWithin(one, path)))
    .filter(({ path }) => existsSync(path))
    .sort((a, b) => a.path.length - b.path.length || Number(a.write) - Number(b.write))
    .flatMap((root) => viewsOf(root, whole));
  return [
    whole ? [all, ...pins(all, closed)].flatMap(mounted) : system(),
    // If the host runs as root, files in /proc belong to its user, so /proc is mounted read-only.
    ['--proc', '/proc', '--remount-ro', '/proc'],
    ['--dev', '/dev', ...size, '--tmpfs', '/dev/shm', '--remount-ro', '/dev', ...size, '--tmpfs', '/tmp'],
    whole ? ['--tmpfs', '/run', '--tmpfs', '/sys'] : [],
    ...some.flatMap((view) => [view, ...pins(view, closed)]).map(mounted),
    ...(whole ? [all, ...some] : some).flatMap((view) => hidden(view, closed)),
    // The root itself is bubblewrap's tmpfs.
    whole ? [] : ['--remount-ro', '/'],
  ].flat();
}

/** A path that is granted through a link is also mounted at the granted path. */
function viewsOf({ path, granted, write }: Root, whole: boolean): View[] {
  const real = { of: path, at: path, write };
  return granted === path || taken(granted, whole) ? [real] : [real, { ...real, at: granted }];
}

/** Path inside the sandbox of a host path in a mount. */
const placed = ({ of, at }: View, path: string): string => join(at, relative(of, path));

/**
 * Mounts each parent folder of a hidden path onto itself. Mount points cannot be renamed, so a command cannot move
 * hidden data to a path that the next command can see.
 */
function pins(view: View, closed: readonly string[]): View[] {
  if (!view.write) return [];
  const above = closed
    .filter((path) => isWithin(view.of, path) && path !== view.of)
    .flatMap((path) => foldersBetween(view.of, path));
  return [...new Set(above)]
    .sort((a, b) => a.length - b.length)
    .map((path) => ({ of: path, at: placed(view, path), write: true }));
}

function foldersBetween(top: string, path: string): string[] {
  const above = dirname(path);
  return above === top ? [] : [...foldersBetween(top, above), above];
}

const mounted = ({ of, at, write }: View): string[] => [write ? '--bind' : '--ro-bind', of, at];

const system = (): string[] =>
  [
    ['--ro-bind', '/usr', '/usr'],
    ...programs.map((path) => {
      if (isLink(path)) return ['--symlink', readlinkSync(path), path];
      return existsSync(path) ? ['--ro-bind', path, path] : [];
    }),
    ...settings.map((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
  ].flat();

/** Whether a path inside the sandbox is used for something else. */
const taken = (granted: string, whole: boolean): boolean =>
  whole || ['/usr', '/etc', ...programs, ...own].some((path) => isWithin(path, granted));

/** Covers hidden paths with an empty read-only folder. */
const hidden = (view: View, closed: readonly string[]): string[] =>
  closed
    .filter((path) => isWithin(view.of, path))
    .map((path) => placed(view, path))
    .flatMap((at) => ['--tmpfs', at, '--remount-ro', at]);
