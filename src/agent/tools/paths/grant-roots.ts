import { isAbsolute, join } from 'node:path';
import type { Grants } from '../../shapes/agent-spec.ts';
import { isWithin, type Resolved, resolvePath, UnresolvedPath } from './resolve-path.ts';

/** A resolved path grant. */
export interface GrantRoot {
  /** The path in the grant. */
  readonly granted: string;
  /** Real path, without links. */
  readonly path: string;
  readonly write: boolean;
}

export type PathGrants = Pick<Grants, 'read' | 'write'>;

const toPath = ({ real, missing }: Resolved): string => join(real, ...missing);

/**
 * Resolves grants to real paths. A grant whose path passes through a folder that another grant makes writable is left
 * out: an agent could replace that part with a link to anywhere. Its regular content is covered by the other grant.
 */
export async function resolveGrantRoots(grants: PathGrants): Promise<GrantRoot[]> {
  const absoluteGrants = [
    ...grants.write.map((granted) => ({ granted, write: true })),
    ...grants.read.map((granted) => ({ granted, write: false })),
  ].filter(({ granted }) => isAbsolute(granted));
  const resolvedGrants: { root: GrantRoot; passedFolders: readonly string[] }[] = [];
  for (const { granted, write } of absoluteGrants) {
    try {
      const resolved = await resolvePath(granted);
      resolvedGrants.push({
        root: { granted, write, path: toPath(resolved) },
        passedFolders: resolved.passedFolders,
      });
    } catch (error) {
      // A grant that cannot be resolved grants nothing.
      if (!(error instanceof UnresolvedPath)) throw error;
    }
  }
  return resolvedGrants
    .filter(
      ({ root, passedFolders }) =>
        !resolvedGrants.some(
          ({ root: other }) =>
            other !== root &&
            other.write &&
            other.path !== root.path &&
            passedFolders.some((folder) => isWithin(other.path, folder)),
        ),
    )
    .map(({ root }) => root);
}

export const isAllowed = (roots: readonly GrantRoot[], path: string, access: 'read' | 'write'): boolean =>
  roots.some((root) => (root.write || access === 'read') && isWithin(root.path, path));
