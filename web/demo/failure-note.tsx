import type { ReactNode } from 'react';
import { Row } from '../console/parts/index.tsx';
import css from './demo.module.css';
import { adviceOf, type Failure } from './failures.ts';

export function FailureNote({ failure, children }: { failure: Failure; children?: ReactNode }) {
  const { title, toDo } = adviceOf(failure);
  return (
    <div className={css['failure']} role="alert">
      <strong>{title}</strong>
      <p>{failure.message}</p>
      <p>{toDo}</p>
      <Row>
        {children}
        <span className={css['quiet']}>{failure.code}</span>
      </Row>
    </div>
  );
}
