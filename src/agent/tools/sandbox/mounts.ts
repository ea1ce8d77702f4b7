import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs';
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

/** Bubblewrap's arguments for all that is seen inside, in the order in which it lies over each other. */
export function mountArguments({ roots, forbidden }: Mounts, scratchBytes: number): string[] {
  const size = ['--size', String(scratchBytes)];
  const everything = roots.filter(({ path }) => path === '/');
  const whole = everything.length > 0;
  const some = roots
    .filter(({ path }) => path !== '/' && !own.some((one) => isWithin(one, path)) && existsSync(path))
    .sort((a, b) => a.path.length - b.path.length || Number(a.write) - Number(b.write));
  return [
    whole ? [bind(everything.some(({ write }) => write)), '/', '/'] : system(),
    // Where the host runs as root, files of /proc are its user's own, though it has no rights inside.
    ['--proc', '/proc', '--remount-ro', '/proc'],
    ['--dev', '/dev', ...size, '--tmpfs', '/dev/shm', '--remount-ro', '/dev', ...size, '--tmpfs', '/tmp'],
    whole ? ['--tmpfs', '/run', '--tmpfs', '/sys'] : [],
    ...some.map(({ path, granted, write }) => [
      bind(write),
      path,
      path,
      ...(granted !== path && !taken(granted, whole) ? [bind(write), path, granted] : []),
    ]),
    ...forbidden.filter((path) => existsSync(path)).map((path) => hidden(realpathSync(path), roots)),
    // What is left of it is bubblewrap's own, in memory.
    whole ? [] : ['--remount-ro', '/'],
  ].flat();
}

const bind = (write: boolean): string => (write ? '--bind' : '--ro-bind');

const system = (): string[] =>
  [
    ['--ro-bind', '/usr', '/usr'],
    ...programs.map((path) => {
      if (isLink(path)) return ['--symlink', readlinkSync(path), path];
      return existsSync(path) ? ['--ro-bind', path, path] : [];
    }),
    ...settings.map((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
  ].flat();

/** A grant through a link keeps its name inside, unless something else has it there. */
const taken = (granted: string, whole: boolean): boolean =>
  whole || ['/usr', '/etc', ...programs, ...own].some((path) => isWithin(path, granted));

/** Only where it would be seen; in its place is an empty folder. */
const hidden = (path: string, roots: readonly Root[]): string[] =>
  roots.some((root) => isWithin(root.path, path) || isWithin(path, root.path))
    ? ['--tmpfs', path, '--remount-ro', path]
    : [];
