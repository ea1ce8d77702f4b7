/** What the views read. Lists are shared: a name that one view needs is not read twice. */
import {
  keepPreviousData,
  type QueryClient,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import type { Fault } from '../api/fault.ts';
import { type Account, api, type Key, unwrap } from './api.ts';

/** How often health and requests in flight are read, in ms. */
const statusMs = 5000;
const listMs = 30_000;

export const useStatus = () =>
  useQuery({
    queryKey: ['status'],
    queryFn: () => unwrap(api.GET('/admin/v1/status')),
    refetchInterval: statusMs,
  });

export const useAccounts = () =>
  useQuery({
    queryKey: ['accounts'],
    queryFn: async () => (await unwrap(api.GET('/admin/v1/accounts'))).data,
    refetchInterval: listMs,
  });

export const useKeys = () =>
  useQuery({
    queryKey: ['keys'],
    queryFn: async () => (await unwrap(api.GET('/admin/v1/keys'))).data,
    refetchInterval: listMs,
  });

export const useBudgets = () =>
  useQuery({
    queryKey: ['budgets'],
    queryFn: async () => (await unwrap(api.GET('/admin/v1/budgets'))).data,
    refetchInterval: listMs,
  });

export const useModels = () =>
  useQuery({
    queryKey: ['models'],
    queryFn: () => unwrap(api.GET('/admin/v1/models')),
    refetchInterval: listMs,
  });

export const useProviders = () =>
  useQuery({
    queryKey: ['providers'],
    queryFn: async () => (await unwrap(api.GET('/admin/v1/providers'))).data,
    refetchInterval: statusMs,
  });

export const useCredentials = () =>
  useQuery({
    queryKey: ['credentials'],
    queryFn: async () => (await unwrap(api.GET('/admin/v1/credentials'))).data,
    refetchInterval: listMs,
  });

export const useChanges = (limit: number) =>
  useQuery({
    queryKey: ['changes', limit],
    queryFn: async () =>
      (await unwrap(api.GET('/admin/v1/changes', { params: { query: { limit: String(limit) } } }))).data,
    placeholderData: keepPreviousData,
    refetchInterval: listMs,
  });

export interface UsageParameters {
  readonly by: string;
  readonly since: string;
  readonly until?: string | undefined;
  readonly account?: string | undefined;
  readonly descendants?: 'true' | undefined;
}

export const useUsage = (query: UsageParameters) =>
  useQuery({
    queryKey: ['usage', query],
    queryFn: () => unwrap(api.GET('/admin/v1/usage', { params: { query: withoutEmpty(query) } })),
    placeholderData: keepPreviousData,
    refetchInterval: listMs,
  });

/** Members of a query that have a value. */
const withoutEmpty = <Query extends object>(
  query: Query,
): { [K in keyof Query]: Exclude<Query[K], undefined> } =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as {
    [K in keyof Query]: Exclude<Query[K], undefined>;
  };

export interface RequestParameters {
  readonly account?: string | undefined;
  readonly key?: string | undefined;
  readonly failed?: 'true' | undefined;
  readonly since?: string | undefined;
}

/** Requests of one page. */
const requestPage = 100;

/** Requests that ended, the newest first, page by page. */
export const useRequests = (query: RequestParameters, limit = requestPage) =>
  useInfiniteQuery({
    queryKey: ['requests', query, limit],
    queryFn: async ({ pageParam }: { pageParam: string | undefined }) =>
      (
        await unwrap(
          api.GET('/admin/v1/requests', {
            params: { query: withoutEmpty({ ...query, limit: String(limit), before: pageParam }) },
          }),
        )
      ).data,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.length < limit ? undefined : page.at(-1)?.request_id),
    refetchInterval: listMs,
  });

export const useRequest = (id: string) =>
  useQuery({
    queryKey: ['request', id],
    queryFn: () => unwrap(api.GET('/admin/v1/requests/{request}', { params: { path: { request: id } } })),
    refetchInterval: ({ state }) => (state.data?.state === 'running' ? statusMs : false),
  });

/** A change through the API; all lists are read again after it. */
export const useChange = <Input, Output>(change: (input: Input) => Promise<Output>) => {
  const queries = useQueryClient();
  return useMutation<Output, Fault, Input>({
    mutationFn: change,
    onSettled: () => void refreshAll(queries),
  });
};

const refreshAll = (queries: QueryClient): Promise<void> => queries.invalidateQueries();

/** Names of accounts and keys, for ids in other lists. */
export function useNames() {
  const accounts = useAccounts().data;
  const keys = useKeys().data;
  return {
    account: (id: string): string | undefined => accounts && accountNames(accounts).get(id),
    key: (id: string): string | undefined => keys && keyNames(keys).get(id),
  };
}

/** A map that is made once for each list: every cell of a table looks names up. */
function oncePerList<Item extends object>(entryOf: (item: Item) => readonly [id: string, name: string]) {
  const known = new WeakMap<readonly Item[], ReadonlyMap<string, string>>();
  return (list: readonly Item[]): ReadonlyMap<string, string> => {
    const found = known.get(list) ?? new Map(list.map(entryOf));
    known.set(list, found);
    return found;
  };
}

const accountNames = oncePerList<Account>(({ id, name }) => [id, name]);
const keyNames = oncePerList<Key>((key) => [key.id, key.label ?? `...${key.last4}`]);
