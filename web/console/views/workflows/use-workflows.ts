import { useQuery } from '@tanstack/react-query';
import type { BuiltinWorkflow, Ensemble } from '../../agents/schemas.ts';
import { api, unwrap } from '../../../api/client.ts';

export const useWorkflows = () =>
  useQuery({
    queryKey: ['workflows'],
    queryFn: (): Promise<Ensemble[]> => unwrap(api.GET('/agent/v1/workflows')),
  });

export const useBuiltins = () =>
  useQuery({
    queryKey: ['builtins'],
    queryFn: async (): Promise<BuiltinWorkflow[]> =>
      (await unwrap(api.GET('/agent/v1/workflows/builtins'))).builtins,
  });
