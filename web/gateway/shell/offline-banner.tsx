import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { Button } from '../../ui/index.tsx';
import css from '../gateway.module.css';
import { isAnswering, readSession } from '../api.ts';

/** How often a gateway that does not answer is asked again, in ms. */
const retryMs = 3000;

/** Says once that the gateway does not answer, and reads everything again when it does. */
export function OfflineBanner() {
  const queries = useQueryClient();
  const retry = async () => {
    if (!(await isAnswering())) return;
    // After a restart the gateway has no sessions.
    await readSession();
    await queries.invalidateQueries();
  };
  useEffect(() => {
    const timer = setInterval(() => void retry(), retryMs);
    return () => clearInterval(timer);
  });
  return (
    <div className={css['banner']} role="alert">
      <strong>The gateway does not answer.</strong>
      <span>The page shows what it read before, and tries again every few seconds.</span>
      <Button onClick={() => void retry()}>Try now</Button>
    </div>
  );
}
