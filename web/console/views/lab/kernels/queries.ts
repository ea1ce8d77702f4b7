import { useQuery, useQueryClient } from '@tanstack/react-query';
import { api, unwrap } from '../../../../api/client.ts';
import type { components } from '../../../../api/schema.d.ts';

export type Parts = components['schemas']['LabParts'];
export type Kernel = Parts['kernels'][number];

export type Op = components['schemas']['LabOps']['ops'][number];
export type KernelDetail = components['schemas']['LabKernel'];
type Stub = components['schemas']['LabStub'];
type StubQuery = { readonly target: Stub['target']; readonly format?: string };

export const useParts = ({ enabled = true }: { enabled?: boolean } = {}) =>
  useQuery({
    queryKey: ['lab', 'parts'],
    enabled,
    queryFn: () => unwrap(api.GET('/lab/v1/parts')),
  });

export const useOps = () =>
  useQuery({
    queryKey: ['lab', 'ops'],
    queryFn: async () => (await unwrap(api.GET('/lab/v1/ops'))).ops,
    staleTime: 60_000,
  });

export const fetchStub = (op: string, { target, format }: StubQuery) => {
  const query = { target, ...(format === undefined ? {} : { format: format as 'q8_0' }) };
  return unwrap(api.GET('/lab/v1/ops/{op}/stub', { params: { path: { op }, query } }));
};

export const fetchKernel = (name: string): Promise<KernelDetail> =>
  unwrap(api.GET('/lab/v1/kernels/{name}', { params: { path: { name } } }));

export type Version = components['schemas']['KernelVersions']['versions'][number];
export type VersionDetail = components['schemas']['KernelVersion'];

/** The registrations of a kernel, newest first; also those of a rejected or deleted one. */
export const useVersions = (nameOrDigest: string) =>
  useQuery({
    queryKey: ['lab', 'versions', nameOrDigest],
    queryFn: () =>
      unwrap(api.GET('/lab/v1/kernels/{name}/versions', { params: { path: { name: nameOrDigest } } })),
    // A kernel that does not exist does not appear by asking again.
    retry: false,
  });

/** A registration with its report. */
export const useVersion = (name: string, at: string | undefined) =>
  useQuery({
    queryKey: ['lab', 'version', name, at],
    enabled: at !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () =>
      unwrap(api.GET('/lab/v1/kernels/{name}/versions/{at}', { params: { path: { name, at: at ?? '' } } })),
  });

/** Refreshes all lab queries after a kernel was registered, bound or unbound. */
export function useRefreshLab(): () => Promise<void> {
  const queries = useQueryClient();
  return async () => {
    // A response in flight from before the change would be taken for the new one.
    await queries.cancelQueries({ queryKey: ['lab'] });
    await queries.invalidateQueries({ queryKey: ['lab'] });
  };
}

/** Slot of a component, as the host names it: `layers.3.attn.norm` becomes `layers.*.attn.norm`. */
export const slotOf = (id: string): string => id.replace(/^layers\.\d+\./, 'layers.*.');

/** Summarizes components by slot: `layers.*.attn.norm (4), output.norm`. */
export function summarizeComponents(ids: readonly string[]): string {
  const counts = Map.groupBy(ids, slotOf);
  return [...counts]
    .map(([slot, { length, 0: only }]) => (length === 1 ? only : `${slot} (${length})`))
    .join(', ');
}
