"""Images generated: an Image GPT that says the shades of a digit one after the other.

What it shows: how few bits a pixel of a held-out image takes once those before it are known, with
attention to all of them and with strided attention, to the last 8 and to those above; images drawn
from nothing, and lower halves given the upper ones. Digits of scikit-learn, 8 × 8 pixels of 17 shades,
1,438 to learn from and 359 held out.

    python -m experiments.generate_images --config=configs/generate_images/default.py

Result to expect (means over seeds 0, 1, 2, the least and the most of them; Python 3.12; 160 s of CPU
time on an AMD EPYC that was doing other work):

    what knows the images       parameters    pairs    bits per pixel
    all shades alike                                   4.09
    histogram of each place                            2.43
    histogram given the last                           2.28
    Image GPT, dense            155,968       2,080    1.97 (1.94 to 2.02)
    Image GPT, strided          155,968       708      1.92 (1.91 to 1.93)

    lower halves, whole taken for what it was (by the nearest image that was learned from; seed 0)
    as they were                                       0.99
    Image GPT, dense                                   0.61
    Image GPT, strided                                 0.63
    those of the image whose upper half is nearest     0.88
    white                                              0.42

- Strided attention looks at a third of the pairs, and knows more with every seed: that the pixel above
  matters, dense attention has to learn, and has few images to learn it from.
- Bits are not pictures: strokes go on where they should, but what is drawn is often no clean digit, and
  a half taken from the nearest image is more often right. Between the two patterns that is a tie.
"""

from experiments.generate_images.config import Config


def get_config() -> Config:
    return Config()
