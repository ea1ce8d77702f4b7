import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { HostModel, HostModels } from '../../../../src/planes/host/models-schema.ts';
import { fetchRaw } from '../../../api/client.ts';

export type { HostModel, HostModels };

/** All models of the host. */
export const useModels = () =>
  useQuery({
    queryKey: ['host', 'models'],
    queryFn: async (): Promise<HostModels> =>
      (await (await fetchRaw('/host/v1/models')).json()) as HostModels,
  });

/** Refreshes what depends on the models, after one was loaded, closed, pulled or removed. */
export function useRefreshModels(): () => Promise<void> {
  const queries = useQueryClient();
  return async () => {
    await Promise.all([
      queries.invalidateQueries({ queryKey: ['host'] }),
      queries.invalidateQueries({ queryKey: ['lab'] }),
      queries.invalidateQueries({ queryKey: ['v1', 'models'] }),
    ]);
  };
}

/** Reads the answer, too: an unread body would keep its connection, of which a browser has few. */
async function send(method: string, path: string, body: object): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  await (await fetchRaw(path, { method, headers, body: JSON.stringify(body) })).text();
}

/** Loads a model, as a request that names it does. */
export const loadModel = (model: HostModel): Promise<void> => sendWithoutInput(model, {});

/** Closes a model that was loaded beside the resident one, after its requests. */
export const closeModel = (model: HostModel): Promise<void> => sendWithoutInput(model, { keep_alive: 0 });

/** Models of every kind are loaded so, also those that only embed or rank. */
const sendWithoutInput = ({ name }: HostModel, more: object): Promise<void> =>
  send('POST', '/api/generate', { model: name, stream: false, ...more });

export const removeModel = ({ name }: HostModel): Promise<void> =>
  send('DELETE', '/api/delete', { model: name });
