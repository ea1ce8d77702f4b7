/**
 * Adds the platform packages that npm left out to package-lock.json, and prints how many.
 *
 * npm writes no entry for an optional package that the registry does not serve (a mirror may have only its own
 * platforms). Then `npm ci` refuses the lock file as incomplete on every machine. An entry without an integrity hash is
 * valid: machines of that platform download the package, others skip it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

const systems = [
  'aix',
  'android',
  'darwin',
  'freebsd',
  'linux',
  'netbsd',
  'openbsd',
  'openharmony',
  'sunos',
  'win32',
];
const processors = [
  'arm64',
  'x64',
  'arm',
  'ia32',
  'ppc64',
  'riscv64',
  's390x',
  'loong64',
  'mips64el',
  'wasm32',
];

/** Names and versions of optional packages that the lock file refers to without an entry. */
export function missingPackages(lock) {
  const missing = new Map();
  for (const [path, entry] of Object.entries(lock.packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const held = lock.packages[`node_modules/${name}`] ?? lock.packages[`${path}/node_modules/${name}`];
      if (!held) missing.set(name, { version: version.replace(/^[~^]/, ''), dev: entry.dev === true });
    }
  }
  return missing;
}

/** The entry that npm writes for a package of another platform, derived from the package's name. */
function entryOf(name, { version, dev }) {
  const words = name.split(/[-/_]/);
  const os = systems.filter((system) => words.includes(system));
  const cpu = processors.filter((processor) => words.includes(processor));
  const musl = words.some((word) => word.startsWith('musl'));
  const gnu = words.some((word) => word.startsWith('gnu'));
  return {
    version,
    ...(cpu.length > 0 ? { cpu } : {}),
    ...(dev ? { dev } : {}),
    ...(os[0] === 'linux' && (musl || gnu) ? { libc: [musl ? 'musl' : 'glibc'] } : {}),
    optional: true,
    ...(os.length > 0 ? { os } : {}),
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const path = fileURLToPath(new URL('../package-lock.json', import.meta.url));
  const lock = JSON.parse(readFileSync(path, 'utf8'));
  const missing = missingPackages(lock);
  for (const [name, facts] of missing) lock.packages[`node_modules/${name}`] = entryOf(name, facts);
  const { '': root, ...others } = lock.packages;
  lock.packages = {
    '': root,
    ...Object.fromEntries(Object.entries(others).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
  writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
  console.log(`${missing.size} platform packages added to package-lock.json`);
}
