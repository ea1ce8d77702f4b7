import { registerHooks } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { defineKernel } from '../define-kernel.ts';

const loadParameter = 'lathe-load';
const importsByLoad = new Map<string, Set<string>>();
let isInstalled = false;
let count = 0;

/** Replacement of `lathe/lab` for kernel modules outside of the package: a data URL module with the same exports. */
const labModule = `data:text/javascript,${encodeURIComponent(`export const defineKernel = ${String(defineKernel)};`)}`;

/**
 * Node caches modules by URL forever. Each load adds a unique query, which imported modules inherit, so that changed
 * helper modules are read again too.
 */
function installHooks(): void {
  isInstalled = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'lathe/lab') return { url: labModule, format: 'module', shortCircuit: true };
      const resolved = next(specifier, context);
      const load = queryOf(context.parentURL);
      if (load === null || !resolved.url.startsWith('file:') || resolved.url.includes('/node_modules/'))
        return resolved;
      const url = new URL(resolved.url);
      importsByLoad.get(load)?.add(fileURLToPath(url));
      url.searchParams.set(loadParameter, load);
      return { ...resolved, url: url.href };
    },
  });
}

const queryOf = (url: string | undefined): string | null =>
  url?.startsWith('file:') ? new URL(url).searchParams.get(loadParameter) : null;

interface Imported {
  readonly exports?: unknown;
  /** Set when the import threw. */
  readonly failure?: { readonly thrown: unknown };
  /** Paths of the files that it imports. */
  readonly imported: readonly string[];
}

/** Imports a module from the current contents of its files. */
export async function importUncached(path: string): Promise<Imported> {
  if (!isInstalled) installHooks();
  const load = String(++count);
  const imported = new Set<string>();
  importsByLoad.set(load, imported);
  const url = pathToFileURL(path);
  url.searchParams.set(loadParameter, load);
  try {
    const exports: unknown = await import(url.href);
    return { exports, imported: [...imported] };
  } catch (thrown) {
    return { failure: { thrown }, imported: [...imported] };
  } finally {
    importsByLoad.delete(load);
  }
}

/** Location in a file where an error was thrown, if the stack trace contains it. */
export function locationInStackTrace(
  thrown: unknown,
  path: string,
): { line: number; column?: number } | undefined {
  const trace = thrown instanceof Error ? (thrown.stack ?? '') : '';
  // TypeScript syntax errors have an excerpt instead: path:line, some lines, and a caret.
  const excerpt = trace.startsWith(`${path}:`)
    ? /^(\d+)\n[^]*?\n( *)\^/.exec(trace.slice(path.length + 1))
    : null;
  if (excerpt) return { line: Number(excerpt[1]), column: (excerpt[2] ?? '').length + 1 };
  const start = `${pathToFileURL(path).href}?${loadParameter}=`;
  const at = trace.indexOf(start);
  const match = at === -1 ? null : /^\d+:(\d+):(\d+)/.exec(trace.slice(at + start.length));
  return match ? { line: Number(match[1]), column: Number(match[2]) } : undefined;
}
