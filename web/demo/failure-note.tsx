import type { ReactNode } from 'react';
import { Row } from '../ui/index.tsx';
import css from './demo.module.css';
import { failureAdvice, type Failure } from './failures.ts';

export function FailureNote({ failure, children }: { failure: Failure; children?: ReactNode }) {
  const { title, action } = failureAdvice(failure);
  return (
    <div className={css['failure']} role="alert">
      <strong>{title}</strong>
      <p>{failure.message}</p>
      <p>{action}</p>
      <Row>
        {children}
        <span className={css['quiet']}>{failure.code}</span>
      </Row>
    </div>
  );
}
