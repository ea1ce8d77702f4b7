import { isAbsolute, join } from 'node:path';
import type { Grants } from '../../shapes/agent-spec.ts';
import { isWithin, type Resolved, resolvePath, Unresolved } from './resolve.ts';

/** A resolved path grant. */
export interface Root {
  /** The path in the grant. */
  readonly granted: string;
  /** Real path, without links. */
  readonly path: string;
  readonly write: boolean;
}

export type PathGrants = Pick<Grants, 'read' | 'write'>;

const pathOf = ({ real, missing }: Resolved): string => join(real, ...missing);

/**
 * Resolves grants to real paths. A grant whose path passes through a folder that another grant makes writable is left
 * out: an agent could replace that part with a link to anywhere. Its regular content is covered by the other grant.
 */
export async function grantRoots(grants: PathGrants): Promise<Root[]> {
  const asked = [
    ...grants.write.map((granted) => ({ granted, write: true })),
    ...grants.read.map((granted) => ({ granted, write: false })),
  ].filter(({ granted }) => isAbsolute(granted));
  const found: { root: Root; passed: readonly string[] }[] = [];
  for (const { granted, write } of asked) {
    try {
      const resolved = await resolvePath(granted);
      found.push({ root: { granted, write, path: pathOf(resolved) }, passed: resolved.passed });
    } catch (error) {
      // A grant that cannot be resolved grants nothing.
      if (!(error instanceof Unresolved)) throw error;
    }
  }
  return found
    .filter(
      ({ root, passed }) =>
        !found.some(
          ({ root: other }) =>
            other !== root &&
            other.write &&
            other.path !== root.path &&
            passed.some((folder) => isWithin(other.path, folder)),
        ),
    )
    .map(({ root }) => root);
}

export const allows = (roots: readonly Root[], path: string, access: 'read' | 'write'): boolean =>
  roots.some((root) => (root.write || access === 'read') && isWithin(root.path, path));
