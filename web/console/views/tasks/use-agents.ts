import { useQuery } from '@tanstack/react-query';
import { api, held } from '../../api/client.ts';

export const useAgents = () =>
  useQuery({ queryKey: ['agents'], queryFn: () => held(api.GET('/agent/v1/agents')) });

export const useTools = () =>
  useQuery({ queryKey: ['tools'], queryFn: () => held(api.GET('/agent/v1/tools')), refetchInterval: 15_000 });
