import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';

export const useAgents = () =>
  useQuery({ queryKey: ['agents'], queryFn: () => unwrap(api.GET('/agent/v1/agents')) });

export const useTools = () =>
  useQuery({
    queryKey: ['tools'],
    queryFn: () => unwrap(api.GET('/agent/v1/tools')),
  });
