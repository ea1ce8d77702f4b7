import { useQuery } from '@tanstack/react-query';
import { api, Fault, held } from '../../api/client.ts';

export type ModelState = 'ready' | 'loading' | 'none';

/** While it loads, the host refuses to name its model. */
async function modelState(): Promise<ModelState> {
  try {
    const { status } = await held(api.GET('/host/v1/health'));
    return status === 'ok' ? 'ready' : 'none';
  } catch (error) {
    if (error instanceof Fault && error.code === 'model_loading') return 'loading';
    throw error;
  }
}

/** Asked more often while it is on its way. */
export const useModelState = () =>
  useQuery({
    queryKey: ['host', 'model-state'],
    queryFn: modelState,
    refetchInterval: ({ state }) => (state.data === 'loading' ? 1000 : 5000),
  });
