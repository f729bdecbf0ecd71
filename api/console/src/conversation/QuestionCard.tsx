import { useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { agents, inBox } from "../wire/clients";
import { w } from "../words";
import type { Question } from "./items";

export function QuestionCard({ question, boxId, agentId }: { question: Question; boxId: string; agentId: string }) {
  const [text, setText] = useState("");
  const respond = useAction((answer: string) =>
    agents.respond({ agentId, questionId: question.id, answer }, inBox(boxId)),
  );
  if (question.answer !== undefined) {
    return (
      <article class="question">
        <p>{question.question}</p>
        <p class="answered">{question.answer}</p>
      </article>
    );
  }
  return (
    <form
      class="question approval"
      aria-label={w.question.title}
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) void respond.run(text);
      }}
    >
      <p>
        <b>{w.question.title}</b>
      </p>
      <p>{question.question}</p>
      <div class="row">
        {question.choices.map((choice) => (
          <button key={choice} type="button" disabled={respond.busy} onClick={() => respond.run(choice)}>
            {choice}
          </button>
        ))}
      </div>
      <label>
        {question.choices.length > 0 ? w.question.other : w.question.answer}
        <input value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button class="primary" disabled={respond.busy || !text.trim()}>
        {w.question.answer}
      </button>
      {respond.error && <p class="error" role="alert">{respond.error}</p>}
    </form>
  );
}
