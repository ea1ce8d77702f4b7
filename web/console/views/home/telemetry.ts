import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';

/** Totals since the start of the host, with the time of the response (`at`, in ms). */
export const useTelemetry = () =>
  useQuery({
    queryKey: ['host', 'telemetry'],
    queryFn: async () => ({ at: Date.now(), ...(await unwrap(api.GET('/host/v1/telemetry'))) }),
  });
