// Prints long conversations for the scripted model: one of ten thousand calls, one that is counted slowly, one that streams fast.

const STEPS = 20;
const CALLS = 500;
console.log('[[conversation]]\nwhen = "work a lot"\n');
for (let step = 0; step < STEPS; step += 1) {
  // Each call is another one: an agent that repeats itself is stopped.
  const calls = Array.from({ length: CALLS }, (_, call) => `{ name = "glob", args = { pattern = "absent-${step}-${call}-*" } }`);
  console.log(`[[conversation.step]]\nchunk_delay_ms = 0\ntext = "Step ${step} of ${STEPS}, with **${CALLS}** calls."\ntools = [${calls.join(", ")}]\n`);
}
console.log('[[conversation.step]]\ntext = "All of it is done."\n');

/** A minute and more of one reply. */
const COUNT = 1_600;
/** Of each reply; eight of them are what a fast model says in ten minutes. */
const STREAMED_WORDS = 7_500;
const words = (count) => Array.from({ length: count }, (_, n) => n + 1).join(" ");
console.log(`[[conversation]]\nwhen = "count for long"\n\n[[conversation.step]]\nchunk_delay_ms = 45\ntext = "${words(COUNT)}"\n`);
console.log(`[[conversation]]\nwhen = "stream fast"\n\n[[conversation.step]]\nchunk_delay_ms = 0\ntext = "${words(STREAMED_WORDS)} streamed"\n`);
