import { registerHooks } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { defineKernel } from '../define-kernel.ts';

const mark = 'lathe-load';
const loads = new Map<string, Set<string>>();
let installed = false;
let count = 0;

/** `lathe/lab` for kernels that lie outside the package: all it exports, as a module of its own. */
const labModule = `data:text/javascript,${encodeURIComponent(`export const defineKernel = ${String(defineKernel)};`)}`;

/**
 * Node keeps a module by its URL for ever. Each load gets a query of its own, which the modules it imports inherit, so
 * that a changed helper is read again as well.
 */
function install(): void {
  installed = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'lathe/lab') return { url: labModule, format: 'module', shortCircuit: true };
      const resolved = next(specifier, context);
      const load = queryOf(context.parentURL);
      if (load === null || !resolved.url.startsWith('file:') || resolved.url.includes('/node_modules/'))
        return resolved;
      const url = new URL(resolved.url);
      loads.get(load)?.add(fileURLToPath(url));
      url.searchParams.set(mark, load);
      return { ...resolved, url: url.href };
    },
  });
}

const queryOf = (url: string | undefined): string | null =>
  url?.startsWith('file:') ? new URL(url).searchParams.get(mark) : null;

interface Imported {
  readonly exports?: unknown;
  /** What was thrown instead. */
  readonly failure?: { readonly thrown: unknown };
  /** Paths of the further files that it is made of. */
  readonly imported: readonly string[];
}

/** Imports a module as its files are now. */
export async function importFresh(path: string): Promise<Imported> {
  if (!installed) install();
  const load = String(++count);
  const imported = new Set<string>();
  loads.set(load, imported);
  const url = pathToFileURL(path);
  url.searchParams.set(mark, load);
  try {
    const exports: unknown = await import(url.href);
    return { exports, imported: [...imported] };
  } catch (thrown) {
    return { failure: { thrown }, imported: [...imported] };
  } finally {
    loads.delete(load);
  }
}

/** Where in a file's own code something was thrown, when the trace tells. */
export function placeInTrace(thrown: unknown, path: string): { line: number; column?: number } | undefined {
  const trace = thrown instanceof Error ? (thrown.stack ?? '') : '';
  // Faults of TypeScript's syntax come with an excerpt instead: path:line, some lines, and a caret.
  const excerpt = trace.startsWith(`${path}:`)
    ? /^(\d+)\n[^]*?\n( *)\^/.exec(trace.slice(path.length + 1))
    : null;
  if (excerpt) return { line: Number(excerpt[1]), column: (excerpt[2] ?? '').length + 1 };
  const start = `${pathToFileURL(path).href}?${mark}=`;
  const at = trace.indexOf(start);
  const match = at === -1 ? null : /^\d+:(\d+):(\d+)/.exec(trace.slice(at + start.length));
  return match ? { line: Number(match[1]), column: Number(match[2]) } : undefined;
}
