"""Constants of the elementary functions in float32 and float64: reductions of arguments and minimax polynomials.

The coefficients come from Remez' exchange in 45 decimal digits. Those for float32 were rounded one by one, from the
lowest power on, and the others fitted again after each. "To 2**-n" is the greatest relative error of the function that
they lead to.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A floating-point type and what the functions need in it.

    Args:
        dtype: the type; `bits` and `signed` are the integers of its width.
        mantissa: bits of the fraction.
        bias: of the exponent.
        ln2: in two parts, the first so short that its product with an exponent is exact.
        pi: in parts, of which the first two are exact times an integer (or half) up to `pi_limit`.
        exp: exp(r) = 1 + r + r**2 * (...) for |r| <= ln(2) / 2.
        expm1: the same, where exp(r) - 1 is accurate relative to itself.
        erf: -ln(1 - erf(x)) = x + x * (...) for 0 <= x <= erf_limit, where erf is 1 to the nearest.
        log: ln(1 + r) = r + r**2 * (...) for |r| <= 1/3.
        sin: sin(r) = r + r**3 * (...) in powers of r**2, for |r| <= pi / 2.
        two_thirds: the bits of 2/3.
        exp_range: exp is 0 below and infinite above.
        tanh_limit: tanh is 1 above.
    """

    dtype: str
    bits: str
    signed: str
    mantissa: int
    bias: int
    ln2: tuple[float, float]
    pi: tuple[float, ...]
    pi_limit: float
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    erf: tuple[float, ...]
    log: tuple[float, ...]
    sin: tuple[float, ...]
    two_thirds: int
    exp_range: tuple[float, float]
    tanh_limit: float
    erf_limit: float

    @property
    def magic(self) -> float:
        """Adding it and subtracting it rounds to an integer, which stands in the low bits in between."""
        return 1.5 * 2.0**self.mantissa


FLOAT32 = Format(
    dtype="float32",
    bits="uint32",
    signed="int32",
    mantissa=23,
    bias=127,
    ln2=(0.693359375, -2.12194440e-4),
    # 21, 21 and 53 bits: the reduction of a float32 is done in float64.
    pi=(
        float.fromhex("0x1.921fb00000000p+1"),
        float.fromhex("0x1.5110b00000000p-21"),
        float.fromhex("0x1.18469898cc517p-43"),
    ),
    pi_limit=2.0**31,
    # To 2**-28.2.
    exp=(0.4999999403953552, 0.16666516661643982, 0.04166810214519501, 0.00836916733533144, 0.001383805531077087),
    # To 2**-26.1.
    expm1=(0.4999999701976776, 0.16666539013385773, 0.04166774824261665, 0.008367089554667473, 0.0013837784063071012),
    # To 2**-27.8.
    erf=(
        0.12837916612625122,
        0.6366195678710938,
        0.10277630388736725,
        -0.019147824496030807,
        -0.0001694925595074892,
        0.001675651641562581,
        -0.0006373402429744601,
        0.00011885145795531571,
        -9.386407327838242e-06,
    ),
    # To 2**-26.3.
    log=(
        -0.5,
        0.33333197236061096,
        -0.24999919533729553,
        0.20011435449123383,
        -0.16674445569515228,
        0.13989824056625366,
        -0.12272954732179642,
        0.1405687779188156,
        -0.12500180304050446,
    ),
    # To 2**-27.3.
    sin=(-0.16666659712791443, 0.008333069272339344, -0.00019809768127743155, 2.6060538402816746e-06),
    two_thirds=0x3F2AAAAB,
    exp_range=(-87.0, 89.0),
    tanh_limit=9.02,
    erf_limit=3.95,
)

FLOAT64 = Format(
    dtype="float64",
    bits="uint64",
    signed="int64",
    mantissa=52,
    bias=1023,
    ln2=(float.fromhex("0x1.62e42fefa2000p-1"), float.fromhex("0x1.9ef35793c7673p-41")),
    pi=(
        float.fromhex("0x1.921fb54400000p+1"),
        float.fromhex("0x1.0b4611a600000p-33"),
        float.fromhex("0x1.3198a2e037073p-68"),
    ),
    pi_limit=2.0**20,
    # To 2**-61.
    exp=(
        0.5,
        0.16666666666666677,
        0.04166666666666651,
        0.008333333333321702,
        0.001388888888896242,
        0.0001984126988593881,
        2.4801587172376122e-05,
        2.755724440384933e-06,
        2.755740282601157e-07,
        2.5108967787394905e-08,
        2.0875261376772077e-09,
    ),
    expm1=(
        0.5,
        0.16666666666666677,
        0.04166666666666651,
        0.008333333333321702,
        0.001388888888896242,
        0.0001984126988593881,
        2.4801587172376122e-05,
        2.755724440384933e-06,
        2.755740282601157e-07,
        2.5108967787394905e-08,
        2.0875261376772077e-09,
    ),
    # To 2**-60.
    erf=(
        0.1283791670955126,
        0.6366197723675816,
        0.10277260330192356,
        -0.01912844700867188,
        -0.0002091946442667637,
        0.0016962059534534415,
        -0.0005901230964000445,
        2.5868766389752354e-05,
        6.452078777593968e-05,
        -2.9788379765052962e-05,
        3.51790404944532e-06,
        2.6855553742706197e-06,
        -1.5805928417954056e-06,
        1.9731506434780018e-07,
        2.3418986630537308e-07,
        -1.965828589198493e-07,
        9.083805422858449e-08,
        -3.0255494443265114e-08,
        7.762295990458343e-09,
        -1.562744010186602e-09,
        2.462801058193105e-10,
        -2.985955630799807e-11,
        2.6926820405476865e-12,
        -1.7015935250511117e-13,
        6.722861525116605e-15,
        -1.2491654636449517e-16,
    ),
    # To 2**-62.
    log=(
        -0.5,
        0.33333333333333337,
        -0.24999999999998956,
        0.19999999999996804,
        -0.1666666666691342,
        0.14285714286275406,
        -0.12499999973331904,
        0.11111111061568846,
        -0.10000001593159338,
        0.09090911641024049,
        -0.08333275438508343,
        0.07692225118714219,
        -0.07144201611102906,
        0.06668414672661843,
        -0.062296741793469626,
        0.05857869796424943,
        -0.057536644324082946,
        0.054868732741243875,
        -0.03813825519606256,
        0.03495259268309123,
        -0.08375877594335598,
        0.0823635637146548,
    ),
    # To 2**-61.
    sin=(
        -0.16666666666666666,
        0.008333333333333194,
        -0.00019841269841209215,
        2.7557319211136348e-06,
        -2.5052106872709258e-08,
        1.6058939700881937e-10,
        -7.642991350937791e-13,
        2.721173429710737e-15,
    ),
    two_thirds=0x3FE5555555555555,
    exp_range=(-708.1, 710.0),
    tanh_limit=19.1,
    erf_limit=5.95,
)

FORMATS = {f.dtype: f for f in (FLOAT32, FLOAT64)}

#: log2((1 + s) / (1 - s)) = s * (...) in powers of s**2, for |s| <= 0.2: to 2**-42 and to 2**-62, both in float64.
LOG2_SHORT = (
    2.885390081777425, 0.9617966948250276, 0.5770777556738784, 0.4122261677548445, 0.3192852018760756,
    0.29082961165146837,
)  # fmt: skip
LOG2_LONG = (
    2.8853900817779268, 0.9617966939259741, 0.5770780163565591, 0.412198582862172, 0.32059892982802407,
    0.26230590410233856, 0.22204908136464002, 0.1900237448746967, 0.19988789668460347,
)  # fmt: skip
#: 2**f = 1 + f * (...) for |f| <= 1/2: to 2**-39 and to 2**-63, both in float64.
EXP2_SHORT = (
    0.6931471805411701, 0.2402265069473776, 0.05550410959458206, 0.009618129560124165, 0.0013333433953711062,
    0.00015403097491598454, 1.5314259703310207e-05, 1.3344301128934917e-06,
)  # fmt: skip
EXP2_LONG = (
    0.6931471805599453, 0.24022650695910072, 0.055504108664821736, 0.009618129107628562, 0.0013333558146381738,
    0.00015403530393171775, 1.525273386484548e-05, 1.3215487003400569e-06, 1.0178047530997998e-07,
    7.054814857889532e-09, 4.45723934520343e-10, 2.5855185764475774e-11,
)  # fmt: skip
