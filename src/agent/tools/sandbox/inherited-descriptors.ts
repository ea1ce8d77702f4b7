import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';

type Stdio = 'ignore' | 'pipe' | number;

const closeOnExec = 0o2000000;

/**
 * Descriptors above 2 that a program started by this process would inherit. Node opens all of its own with close-on-exec,
 * so these came from whoever started this process, or from a native library. Linux; elsewhere the list is empty.
 */
function inheritedDescriptors(): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => fd > 2 && isInherited(fd));
}

function isInherited(fd: number): boolean {
  try {
    const [, flags = ''] =
      /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1')) ?? [];
    return (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    // It was open while the folder was read.
    return false;
  }
}

/**
 * Starts a program without the descriptors that this process inherited: in their place it has `/dev/null`.
 * @param stdio what the program has as its first descriptors
 * @param start calls `spawn` with the list
 */
export function withoutInherited<T>(stdio: readonly Stdio[], start: (stdio: Stdio[]) => T): T {
  const inherited = inheritedDescriptors().filter((fd) => fd >= stdio.length);
  if (inherited.length === 0) return start([...stdio]);
  const nothing = openSync('/dev/null', 'r+');
  try {
    const all: Stdio[] = [...stdio];
    // Above 2, `ignore` leaves a descriptor as it is.
    for (let fd = stdio.length; fd <= Math.max(...inherited); fd++)
      all.push(inherited.includes(fd) ? nothing : 'ignore');
    return start(all);
  } finally {
    closeSync(nothing);
  }
}
