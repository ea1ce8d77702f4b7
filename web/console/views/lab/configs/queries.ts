import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../../api/client.ts';

export const useConfigNames = () =>
  useQuery({ queryKey: ['lab', 'configs'], queryFn: () => unwrap(api.GET('/lab/v1/configs')) });

export const useConfig = (name: string, isWanted = true) =>
  useQuery({
    queryKey: ['lab', 'configs', name],
    enabled: isWanted,
    queryFn: () => unwrap(api.GET('/lab/v1/configs/{name}', { params: { path: { name } } })),
  });

export const useGraph = () =>
  useQuery({ queryKey: ['lab', 'graph'], queryFn: () => unwrap(api.GET('/lab/v1/graph')) });
