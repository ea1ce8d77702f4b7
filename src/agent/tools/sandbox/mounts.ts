import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { isWithin } from '../paths/resolve.ts';
import type { Root } from '../paths/roots.ts';

/** What of /etc programs cannot do without: where libraries, names of users and certificates are. No secrets. */
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
/** Beside /usr; links into it on most systems. */
const programs = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store', '/gnu/store'];

/** The sandbox has these of its own, so the host's do not come in, whatever is granted. */
const own = ['/proc', '/dev', '/sys', '/run'];

export interface Mounts {
  readonly roots: readonly Root[];
  /** Hidden, whatever is granted. */
  readonly forbidden: readonly string[];
}

const isLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/** A folder or file of the host, and where it is seen inside. */
interface View {
  readonly of: string;
  readonly at: string;
  readonly write: boolean;
}

/** Bubblewrap's arguments for all that is seen inside, in the order in which it lies over each other. */
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
    // Where the host runs as root, files of /proc are its user's own, though it has no rights inside.
    ['--proc', '/proc', '--remount-ro', '/proc'],
    ['--dev', '/dev', ...size, '--tmpfs', '/dev/shm', '--remount-ro', '/dev', ...size, '--tmpfs', '/tmp'],
    whole ? ['--tmpfs', '/run', '--tmpfs', '/sys'] : [],
    ...some.flatMap((view) => [view, ...pins(view, closed)]).map(mounted),
    ...(whole ? [all, ...some] : some).flatMap((view) => hidden(view, closed)),
    // What is left of it is bubblewrap's own, in memory.
    whole ? [] : ['--remount-ro', '/'],
  ].flat();
}

/** A grant through a link keeps its name inside, too. */
function viewsOf({ path, granted, write }: Root, whole: boolean): View[] {
  const real = { of: path, at: path, write };
  return granted === path || taken(granted, whole) ? [real] : [real, { ...real, at: granted }];
}

/** Where a path of the host is in a view. */
const placed = ({ of, at }: View, path: string): string => join(at, relative(of, path));

/**
 * The folders above what is hidden, each mounted upon itself: what is a mount cannot be renamed, and so nobody moves what
 * is hidden to a place where the next command would see it.
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

/** Something else has that name inside. */
const taken = (granted: string, whole: boolean): boolean =>
  whole || ['/usr', '/etc', ...programs, ...own].some((path) => isWithin(path, granted));

/** In its place is an empty folder. */
const hidden = (view: View, closed: readonly string[]): string[] =>
  closed
    .filter((path) => isWithin(view.of, path))
    .map((path) => placed(view, path))
    .flatMap((at) => ['--tmpfs', at, '--remount-ro', at]);
