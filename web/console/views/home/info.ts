import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';
import type { components } from '../../../api/schema.d.ts';

export type Info = components['schemas']['SubstrateInfo'];
export type Identity = NonNullable<Info['model']>;

/** The identity card of the host. */
export const useInfo = () =>
  useQuery({
    queryKey: ['host', 'info'],
    queryFn: async (): Promise<Info> => await unwrap(api.GET('/host/v1/info')),
  });
