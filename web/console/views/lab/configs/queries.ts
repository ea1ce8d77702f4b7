import { useQuery } from '@tanstack/react-query';
import { api, held } from '../../../api/client.ts';

export const useConfigNames = () =>
  useQuery({ queryKey: ['lab', 'configs'], queryFn: () => held(api.GET('/lab/v1/configs')) });

export const useConfig = (name: string, isWanted = true) =>
  useQuery({
    queryKey: ['lab', 'configs', name],
    enabled: isWanted,
    queryFn: () => held(api.GET('/lab/v1/configs/{name}', { params: { path: { name } } })),
  });

export const useGraph = () =>
  useQuery({ queryKey: ['lab', 'graph'], queryFn: () => held(api.GET('/lab/v1/graph')) });
