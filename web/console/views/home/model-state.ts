import { useQuery } from '@tanstack/react-query';
import { api, Fault, unwrap } from '../../../api/client.ts';

export type ModelState = 'ready' | 'loading' | 'none';

/** Health of the model. While it loads, the health route answers `model_loading`. */
async function modelState(): Promise<ModelState> {
  try {
    const { status } = await unwrap(api.GET('/host/v1/health'));
    return status === 'ok' ? 'ready' : 'none';
  } catch (error) {
    if (error instanceof Fault && error.code === 'model_loading') return 'loading';
    throw error;
  }
}

/** State of the model. */
export const useModelState = () =>
  useQuery({
    queryKey: ['host', 'model-state'],
    queryFn: modelState,
  });
